"""Which characters and numbers strangers may write."""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from collections.abc import Iterable
from typing import Any

from imharness.errors import UsageError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", re.ASCII)
_LONGEST_NUMBER = 64
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")
_NO_CHARACTERS = "\ufffe\uffff"
"""Two code points that are not characters and that XML forbids."""
_JOINERS = "\u200c\u200d"
"""Zero-width characters that words of several languages and composed symbols need."""
NO_MARKUP: dict[Any, bool] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Settings of matplotlib with which a dollar sign in a text is only a dollar sign, and no formula or TeX is read."""


def number(text: str | None, where: str) -> float:
    """Return a finite number written in ASCII, such as ``-1.5e-3``; raises a `UsageError` that begins with `where`."""
    wanted = (text or "").strip(" \t")
    if len(wanted) <= _LONGEST_NUMBER and _NUMBER.fullmatch(wanted) and math.isfinite(value := float(wanted)):
        return value
    todo = _about_commas(wanted) if len(wanted) <= _LONGEST_NUMBER else ""
    raise UsageError(f"{where} is not a finite number: {text!r:.60}.{todo}")


def _about_commas(wanted: str) -> str:
    """Return what to write in place of a number with commas, or "".

    "1,5" is 1.5, "1,234,567" is 1234567, and "1,234" may be either 1.234 or 1234.
    """
    if "," not in wanted:
        return ""
    point = wanted.replace(",", ".", 1)
    decimal = point if _NUMBER.fullmatch(point) else ""
    whole = wanted.replace(",", "") if _THOUSANDS.fullmatch(wanted) else ""
    if decimal and whole:
        return f" Write a decimal point, {decimal}, or {whole} if the comma separates thousands."
    if decimal:
        return f" Write a decimal point, {decimal}."
    return f" Write it without commas, {whole}." if whole else ""


def is_plain(text: str) -> bool:
    """Return whether a text is one line without control, separator or direction characters or half characters."""
    return text.isprintable() or not any(_is_refused(sign) for sign in text)


def plain(text: str) -> str:
    """Return a text as one line: characters that `is_plain` refuses become spaces, and runs of spaces become one."""
    return " ".join("".join(" " if _is_refused(sign) else sign for sign in text).split())


def stripped(text: str) -> str:
    """Return a text in which characters that `is_plain` refuses become spaces, except line feeds and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if _is_refused(sign) and sign not in "\n\t" else sign for sign in text)


def reason(error: BaseException) -> str:
    """Return the message of another library's error as one line of at most 300 characters."""
    return plain(str(error))[:300] or type(error).__name__


def said_of_spellings(names: Iterable[str], what: str) -> str:
    """Return a sentence on names of `what`, in the plural, that differ only in capitals or encoding, or "".

    An accent may be one sign with its letter or another one after it (NFC and NFD), which look the same.
    """
    spellings: dict[str, str] = {}
    for name in dict.fromkeys(names):
        first = spellings.setdefault(unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()), name)
        if first != name:
            return (
                f"{first!a} and {name!a} differ only in capitals or in how letters are encoded, and count as "
                f"two {what}; if they are one, write it one way"
            )
    return ""


def _is_refused(sign: str) -> bool:
    return (unicodedata.category(sign) in _REFUSED and sign not in _JOINERS) or sign in _NO_CHARACTERS


def warning_text(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as it is shown: one line where it is meant for users, and else with its place in the code."""
    if category is UserWarning:
        return f"warning: {stripped(str(message))}\n"
    return warnings.formatwarning(message, category, filename, lineno, line)

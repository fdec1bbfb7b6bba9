"""Characters and numbers as strangers may write them."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from imharness.errors import UsageError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_LONGEST_NUMBER = 64
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")
_NO_CHARACTERS = "\ufffe\uffff"
"""Neither is a character, and XML allows neither."""
_JOINERS = "\u200c\u200d"
"""Zero-width characters that words of several languages and signs of several parts need."""
NO_MARKUP: dict[Any, bool] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Settings of matplotlib under which a dollar sign in a text is a dollar sign: neither a formula nor TeX is read."""


def number(text: str | None, where: str) -> float:
    """Return a finite number in ASCII, such as ``-1.5e-3``; raises `UsageError` that begins with `where`."""
    wanted = (text or "").strip(" \t")
    if len(wanted) <= _LONGEST_NUMBER and _NUMBER.fullmatch(wanted) and math.isfinite(value := float(wanted)):
        return value
    raise UsageError(f"{where} is no finite number: {text!r:.60}.")


def is_plain(text: str) -> bool:
    """Say whether a text is one line without control, separator or direction characters and without half characters."""
    return text.isprintable() or not any(_is_refused(sign) for sign in text)


def plain(text: str) -> str:
    """Return a text as one line: every character that `is_plain` refuses becomes a space, and spaces are joined."""
    return " ".join("".join(" " if _is_refused(sign) else sign for sign in text).split())


def stripped(text: str) -> str:
    """Return a text of several lines; of what `is_plain` refuses, all but line feeds and tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if _is_refused(sign) and sign not in "\n\t" else sign for sign in text)


def reason(error: BaseException) -> str:
    """Return the message of an error of another library as one line of 300 characters at most."""
    return plain(str(error))[:300] or type(error).__name__


def _is_refused(sign: str) -> bool:
    return (unicodedata.category(sign) in _REFUSED and sign not in _JOINERS) or sign in _NO_CHARACTERS

"""Wrong names, answered by the nearest right one: the one place that says what a person may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 24
"""So many names are listed at most."""
ALIKE = 0.5
"""Share of two names that must agree, in the sense of `difflib`, for one to be taken for the other."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known name, or an empty string.

    Capital letters count as small ones. Of an id ``owner/method`` the method alone counts as a name, too. Where no name
    is alike, the first one that begins so is meant.
    """
    words = dict[str, str]()
    for one in known:
        for word in (one, one.partition("[")[0].partition("/")[2]):
            words.setdefault(word.lower(), word)
    words.pop("", None)
    wanted = name.lower()
    alike = difflib.get_close_matches(wanted, list(words), n=1, cutoff=ALIKE)
    begun = [word for word in words if len(wanted) > 1 and word.startswith(wanted)]
    found = next(iter([*alike, *begun]), None)
    return "" if found is None else f" Did you mean {words[found]!r}?"


def unknown_name(said: str, name: str, known: Iterable[str], listed: str = "Known") -> str:
    """Return one line on a name that is none of the known ones: what was said, the nearest name, and what there is.

    Names are listed in their order, and left out where they are many and one is near.

    Args:
        said: the first sentence, without its full stop, such as ``no attack is called 'ifgms'``.
        name: what was given.
        known: all names that could have been given.
        listed: what stands before the list.
    """
    names = list(dict.fromkeys(known))
    hint = did_you_mean(name, names)
    if hint and len(names) > MOST:
        return f"{said}.{hint}"
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{said}.{hint} {listed}: {', '.join(names[:MOST]) or 'none'}{more}."

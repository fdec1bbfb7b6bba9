"""Everything that can go wrong, as one tree.

::

    HarnessError
    ├── UsageError               the request makes no sense; the command line exits with 2
    ├── PluginError              a plugin could not be loaded or registered
    ├── ContractError            a component returned something its contract forbids
    │   ├── QueryBudgetExceeded  an attack asked its target more often than it may
    │   └── SandboxViolation     code in the sandbox did what it may not, or stopped answering
    ├── Unavailable              weights, data or a package are not on this machine
    └── StoreError               a store cannot be reached, written or used as asked; what it holds may be whole
        └── DamagedError         a file of it is missing or not what was written: compute or restore it

A statistic that is not defined on its data raises `imharness.stats.NotTestable`, which is no error of the harness.

A message says who, what was expected, what came, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ContractError", "DamagedError", "HarnessError", "PluginError", "QueryBudgetExceeded", "SandboxViolation",
    "StoreError", "Unavailable", "UsageError", "did_you_mean", "unknown_name",
]  # fmt: skip


class HarnessError(Exception):
    """Base of all errors that are raised on purpose. `who` is the component at fault, where its code is elsewhere."""

    who = ""


class UsageError(HarnessError):
    """The request makes no sense: unknown name, wrong combination of options."""


class PluginError(HarnessError):
    """A plugin could not be loaded or registered."""


class ContractError(HarnessError):
    """A component returned something that its contract forbids."""


class QueryBudgetExceeded(ContractError):
    """An attack asked its target more often than its declared budget allows."""


class SandboxViolation(ContractError):
    """Code in the sandbox did what it may not, or stopped answering."""


class Unavailable(HarnessError):
    """Something a component needs is not on this machine; `remedy` is the command that gets it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; get it with: {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class StoreError(HarnessError):
    """A store cannot be reached, written or used as asked; `DamagedError` alone says that a file is wrong."""


class DamagedError(StoreError):
    """A file of the store is missing or not what was written: it must be computed again, or restored.

    Any other `StoreError` says nothing about the file, which may be whole: nothing may be thrown away.
    """


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

"""Everything that can go wrong, as one tree.

::

    HarnessError
    ├── UsageError               the request makes no sense; the command line exits with status 2
    ├── PluginError              a plugin could not be loaded or registered
    ├── ContractError            a component returned something its contract forbids
    │   ├── QueryBudgetExceeded  an attack asked its target more often than it may
    │   └── SandboxViolation     code in the sandbox did something forbidden, or stopped answering
    ├── Unavailable              weights, data or a package are not on this machine
    └── StoreError               a store cannot be reached, written or used as asked; its files may be intact
        └── DamagedError         a file of the store is missing or was changed: compute it again or restore it

A statistic that is not defined on its data raises `imharness.leaderboard.NotTestable`, which is not a `HarnessError`.

A message says who raised it, what was expected, what came, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ContractError",
    "DamagedError",
    "HarnessError",
    "PluginError",
    "QueryBudgetExceeded",
    "SandboxViolation",
    "StoreError",
    "Unavailable",
    "UsageError",
    "did_you_mean",
    "unknown_name",
]


class HarnessError(Exception):
    """Base of all errors that are raised on purpose.

    `who` is the label of the component at fault, where its code runs in another process.
    """

    who = ""


class UsageError(HarnessError):
    """The request makes no sense: a name is unknown, or options do not go together."""


class PluginError(HarnessError):
    """A plugin could not be loaded or registered."""


class ContractError(HarnessError):
    """A component returned something that its contract forbids."""


class QueryBudgetExceeded(ContractError):
    """An attack asked its target more often than its declared budget allows."""


class SandboxViolation(ContractError):
    """Code in the sandbox did something forbidden, or stopped answering."""


class Unavailable(HarnessError):
    """Something that a component needs is not on this machine; `remedy` is the command that gets it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; get it with: {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


class StoreError(HarnessError):
    """A store cannot be reached, written or used as asked; only a `DamagedError` says that a file is wrong."""


class DamagedError(StoreError):
    """A file of the store is missing or is not what was written: it must be computed again, or restored.

    After any other `StoreError` the files may be intact, so nothing may be thrown away.
    """


MOST = 24
"""A message lists at most this many names."""
ALIKE = 0.5
"""The least similarity, as `difflib` measures it, at which one name is suggested for another."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known name, or an empty string.

    Case does not matter. The method of an id ``owner/method`` counts as a name, too; the whole id is suggested where
    the method is what was given. If no name is similar enough, the first one that starts with `name` is suggested.
    """
    words = dict[str, str]()
    for one in choices:
        for word in (one, one.partition("[")[0].partition("/")[2]):
            words.setdefault(word.lower(), one if word == name else word)
    words.pop("", None)
    wanted = name.lower()
    if words.get(wanted) == name:
        del words[wanted]
    alike = difflib.get_close_matches(wanted, list(words), n=1, cutoff=ALIKE)
    begun = [word for word in words if len(wanted) > 1 and word.startswith(wanted)]
    closest = next(iter([*alike, *begun]), None)
    return "" if closest is None else f" Did you mean {words[closest]!r}?"


def unknown_name(problem: str, name: str, choices: Iterable[str], listed: str = "Known") -> str:
    """Return one line about an unknown name: the sentence `problem`, the nearest known name, and a list of known names.

    The list keeps the order of `choices`. It is left out if there are many names and one of them is near.

    Args:
        problem: the first sentence, without its full stop, such as ``no attack is called 'ifgms'``.
        name: the name that was given.
        choices: all names that could have been given.
        listed: the words before the list.
    """
    names = list(dict.fromkeys(choices))
    hint = did_you_mean(name, names)
    if hint and len(names) > MOST:
        return f"{problem}.{hint}"
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{problem}.{hint} {listed}: {', '.join(names[:MOST]) or 'none'}{more}."

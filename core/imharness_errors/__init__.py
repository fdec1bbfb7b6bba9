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

from imharness_errors.names import did_you_mean as did_you_mean
from imharness_errors.names import unknown_name as unknown_name


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

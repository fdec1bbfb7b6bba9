"""Everything that can go wrong, as one tree; it stands in `imharness_errors`, so that readers of files can raise it."""

from imharness_errors import (
    ContractError,
    DamagedError,
    HarnessError,
    PluginError,
    QueryBudgetExceeded,
    SandboxViolation,
    StoreError,
    Unavailable,
    UsageError,
    did_you_mean,
    unknown_name,
)

__all__ = [
    "ContractError", "DamagedError", "HarnessError", "PluginError", "QueryBudgetExceeded", "SandboxViolation",
    "StoreError", "Unavailable", "UsageError", "did_you_mean", "unknown_name",
]  # fmt: skip

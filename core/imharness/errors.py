"""Everything that can go wrong, as one tree; it stands in `imharness_errors`, so that readers of files can raise it."""

from imharness_errors import (
    ContractError,
    HarnessError,
    PluginError,
    QueryBudgetExceeded,
    SandboxViolation,
    StoreError,
    StoreUnreachable,
    Unavailable,
    UsageError,
    did_you_mean,
)

__all__ = [
    "ContractError", "HarnessError", "PluginError", "QueryBudgetExceeded", "SandboxViolation", "StoreError",
    "StoreUnreachable", "Unavailable", "UsageError", "did_you_mean",
]  # fmt: skip

"""Everything that can go wrong, as one tree; it stands in `imharness_errors`, so that readers of files can raise it."""

from imharness_errors import ContractError as ContractError
from imharness_errors import DamagedError as DamagedError
from imharness_errors import HarnessError as HarnessError
from imharness_errors import PluginError as PluginError
from imharness_errors import QueryBudgetExceeded as QueryBudgetExceeded
from imharness_errors import SandboxViolation as SandboxViolation
from imharness_errors import StoreError as StoreError
from imharness_errors import Unavailable as Unavailable
from imharness_errors import UsageError as UsageError
from imharness_errors import did_you_mean as did_you_mean
from imharness_errors import unknown_name as unknown_name

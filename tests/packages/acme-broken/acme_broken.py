"""A plugin whose import fails."""

import no_such_package_anywhere  # noqa: F401

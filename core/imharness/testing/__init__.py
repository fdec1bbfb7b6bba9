"""The conformance kit: what `harness plugins check` runs, for the tests of plugin packages.

In a test, `harness_check` runs once per check and component of the modules that ``harness_plugins`` names::

    [tool.pytest.ini_options]
    harness_plugins = ["my_package"]

    def test_conformance(harness_check):
        harness_check()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imharness.testing.conformance import CheckResult, Trial, check_component, components_of, trials

__all__ = ["CheckResult", "Trial", "check_component", "components_of", "trials"]


def __getattr__(name: str) -> object:
    """Load the suite, and torch with it, when it is used: the help text of `harness plugins` needs neither."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("imharness.testing.conformance"), name)

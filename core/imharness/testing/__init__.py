"""The conformance suite of `harness plugins check`, for the tests of plugin packages.

A test with the fixture `harness_check` runs once for each check and component of the modules in ``harness_plugins``::

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
    """Load the suite, and with it torch, when it is used, because the help of `harness plugins` needs neither."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("imharness.testing.conformance"), name)

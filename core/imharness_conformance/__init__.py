"""The conformance kit: what `harness plugins check` runs, for the tests of plugin packages.

In a test, `harness_check` runs once per check and component of the modules that ``harness_plugins`` names::

    [tool.pytest.ini_options]
    harness_plugins = ["my_package"]

    def test_conformance(harness_check):
        harness_check()
"""

from imharness_conformance.conformance import CheckResult, Trial, check_component, components_of, trials

__all__ = ["CheckResult", "Trial", "check_component", "components_of", "trials"]

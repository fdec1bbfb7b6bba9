"""The plugin keeps its contract, on fresh random inputs."""

from collections.abc import Callable


def test_conformance(harness_check: Callable[[], None]) -> None:
    """Run one check of the conformance suite."""
    harness_check()

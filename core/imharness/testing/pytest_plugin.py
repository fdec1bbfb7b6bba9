"""The fixture `harness_check` and the setting ``harness_plugins``; imports nothing heavy unless a test uses them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

SETTING, FIXTURE = "harness_plugins", "harness_check"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(SETTING, "modules whose components the conformance suite checks", type="args", default=[])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses the fixture with every check of every component of the named modules."""
    if FIXTURE not in metafunc.fixturenames:
        return
    from imharness.testing.conformance import components_of, trials

    names = metafunc.config.getini(SETTING)
    if not names:
        raise pytest.UsageError(f'{FIXTURE} needs {SETTING} = ["your_module"] under [tool.pytest.ini_options]')
    collected = [t for name in names for c in components_of(importlib.import_module(name)) for t in trials(c)]
    metafunc.parametrize(FIXTURE, [_runs(trial) for trial in collected], ids=[trial.name for trial in collected])


def _runs(trial: Any) -> Callable[[], None]:
    def run() -> None:
        outcome = trial.run()
        if outcome.status == "skipped":
            pytest.skip(outcome.message)
        if outcome.status == "failed":
            pytest.fail(outcome.message, pytrace=False)

    return run

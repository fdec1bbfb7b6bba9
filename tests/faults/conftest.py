"""Starts the process from which commands are forked before any test computes something."""

import pytest
from tests.faults.forked import forks


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("faults" in item.nodeid for item in session.items):
        forks()

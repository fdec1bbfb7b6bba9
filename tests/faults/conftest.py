"""The process that commands are forked from is there before a test has computed anything."""

import pytest
from tests.faults.forked import forks


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("faults" in item.nodeid for item in session.items):
        forks()

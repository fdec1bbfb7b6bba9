"""The cheats here are far from honest entries; fewer resamples than a leaderboard takes show as much."""

from collections.abc import Iterator

import pytest
from tests.conftest import few_resamples


@pytest.fixture(autouse=True, scope="module")
def _few_resamples() -> Iterator[None]:
    with few_resamples():
        yield

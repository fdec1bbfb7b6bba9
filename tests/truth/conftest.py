"""Tests of this folder simulate many studies: each takes fewer resamples than a leaderboard, enough for their mean."""

from collections.abc import Iterator

import pytest
from tests.conftest import few_resamples


@pytest.fixture(autouse=True)
def _few_resamples() -> Iterator[None]:
    with few_resamples():
        yield

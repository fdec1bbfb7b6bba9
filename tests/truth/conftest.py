"""Many studies are simulated here; each takes fewer resamples than a leaderboard does, which is enough in the mean."""

from collections.abc import Iterator

import pytest
from tests.conftest import few_resamples


@pytest.fixture(autouse=True)
def _few_resamples() -> Iterator[None]:
    with few_resamples():
        yield

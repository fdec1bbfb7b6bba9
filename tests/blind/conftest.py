"""Boards are ranked here whose cheats are far from honest entries; fewer resamples than a board takes tell as much."""

from collections.abc import Iterator

import pytest
from tests.conftest import few_resamples


@pytest.fixture(autouse=True, scope="module")
def _few_resamples() -> Iterator[None]:
    with few_resamples():
        yield

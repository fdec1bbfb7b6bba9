"""Boards are ranked here whose cheats are far from honest entries; fewer resamples than a board takes tell as much."""

from collections.abc import Iterator
from functools import partial

import pytest

from imharness.results import told
from imharness.statistics.differences import differences


@pytest.fixture(autouse=True, scope="module")
def _few_resamples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(told, "differences", partial(differences, resamples=300))
        yield

"""Many studies are simulated here; each takes fewer resamples than a board does, which is enough in the mean."""

from functools import partial

import pytest

from imharness.results import told
from imharness.statistics.differences import differences


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "differences", partial(differences, resamples=300))

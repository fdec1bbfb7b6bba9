"""Names, facts and labels that could be taken for those of others are refused."""

from typing import Any

import pytest
import torch
from pydantic import Field, ValidationError
from tests.blind.leaderboards import STRANGERS

from imharness.components.provenance import Registered
from imharness.components.registry import installed
from imharness.errors import PluginError, UsageError
from imharness.images import DefenseInfo, MetricInfo, Purification, Purifier
from imharness.ranking.rules import is_own
from imharness_submissions.manifest import Submission
from imharness_submissions.owners import check_reserved

MANIFEST: dict[str, Any] = {
    "format": 1,
    "summary": "A defense for tests.",
    "authors": ["A stranger"],
    "contact": "a@b.example",
    "licence": "MIT",
    "extra_training_data": "none",
    "package": {"name": "x", "version": "1.0", "sha256": "0" * 64},
}


class Named(Purification):
    """Leave images as they are; a parameter contains any text."""

    info = DefenseInfo(id="acme/named", version="1", differentiable=True)
    note: str = Field(default="", description="A note.")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: images.clone()


class Taken(Named):
    """Leave images as they are, under the name of a method of the harness."""

    info = DefenseInfo(id="harness/jpeg", version="1", differentiable=True)


@pytest.mark.parametrize(
    "id",
    [
        "h\u0430rness/none",
        "harness\u200b/none",
        "Harness/none",
        "acme/jp\u0435g",
        "acme/\u202egepj",
        "acme/b] + harness/x",
        "acme/../x",
        "harness/none/x",
        "acme/none ",
        "/x",
    ],
)
def test_an_id_is_small_ascii_with_one_owner(id: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        DefenseInfo(id=id, version="1", differentiable=True)


@pytest.mark.parametrize(
    "owner", ["harness-", "hamess", "harness_", "h-arness", "harne5s", "harn3ss", "harnes", "harnesss", "hanress"]
)
def test_an_owner_that_looks_like_the_harness_is_refused(owner: str) -> None:
    entry = {"kind": "defense", "id": f"{owner}/none"}
    submission = Submission.model_validate({**MANIFEST, "entries": [entry]})
    with pytest.raises(UsageError, match="looks like"):
        check_reserved(submission)


def test_the_name_of_a_method_that_is_there_is_taken() -> None:
    with pytest.raises(PluginError, match="already registered"):
        installed().joined([Registered(Taken(), "strangers", STRANGERS)])


def test_no_parameter_makes_an_entry_one_of_the_harness() -> None:
    for note in ("z] + harness/x[y=1", "harness/none", "] + harness/none"):
        assert not is_own(Named(note=note).label)
        assert not is_own(f"harness/lenet + {Named(note=note).label}")


@pytest.mark.parametrize("bounds", [(0.0, float("inf")), (1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)])
def test_the_range_of_a_metric_is_finite_and_goes_up(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match="finite"):
        MetricInfo(id="acme/m", version="1", higher_means="better_quality", bounds=bounds)


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0.0, 1e31), (-0.0, 5e-324), (1.0, 1.0 + 2**-120)])
def test_scores_can_be_divided_by_the_range_of_a_metric(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match=r"1e-30 to 1e\+30 apart|lower < upper"):
        MetricInfo(id="acme/m", version="1", higher_means="better_quality", bounds=bounds)

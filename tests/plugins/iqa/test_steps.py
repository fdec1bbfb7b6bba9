"""What an attack is trained on: images of other sources than those that it is tested on."""

from collections.abc import Mapping

import pytest
import torch

from imharness.components.registry import installed
from imharness.images import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness_cli.commands import context
from imharness_iqa import steps
from imharness_iqa.attacks.uap import Uap

LADDER = "severity-ladder[per_photograph={},severities=[3],size=32,split={}]"


def fitted(monkeypatch, training: str, tested: str) -> tuple[int, torch.Tensor]:
    """Return how many images the training saw, and the first of them."""
    seen = []

    def spy(attack, images, target, rng, progress) -> Mapping[str, torch.Tensor]:
        seen.append(images)
        return {"tile": torch.zeros(1)}

    monkeypatch.setattr(Uap, "fit", spy)
    registry = installed()
    roles = {
        "dataset": registry.one("dataset", training),
        "tested.0": registry.one("dataset", tested),
        "metric": registry.one("metric", "embedded-cnn"),
        "attack": registry.one("attack", "uap[tile=8]").unscaled(),
    }
    steps.fit(context(roles, options={"adaptive": False, "samples": 1, "fit_images": 1000}, device="cpu"))
    return len(seen[0]), seen[0][0]


@pytest.mark.parametrize("split", ["test", "train"])
def test_the_training_of_an_attack_knows_the_images_that_it_is_tested_on(split: str) -> None:
    part = {
        "select": {"dataset": ["severity-ladder"], "metric": ["embedded-cnn"], "attack": ["uap"], "defense": ["none"]},
        "options": {"fit_dataset": LADDER.format(1, split)},
    }
    profile = Profile(name="test", description="", tracks={"harness/iqa": part})
    tasks = plan_track("harness/iqa", profile, installed()).tasks.values()
    (training,) = [task for task in tasks if task.spec.step == "fit"]
    assert training.spec.components["tested.0"].label == "harness/severity-ladder"


def test_an_attack_is_not_trained_on_photographs_that_it_is_tested_on(monkeypatch) -> None:
    """Other crops of the tested photographs are no other photographs."""
    assert fitted(monkeypatch, LADDER.format(1, "train"), LADDER.format(1, "test"))[0] == 60
    for more in (1, 3):
        with pytest.raises(UsageError, match="set fit_dataset to others"):
            fitted(monkeypatch, LADDER.format(more, "test"), LADDER.format(2, "test"))

"""What an attack is trained on, and that clean images are defended once, whatever their sizes."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from imharness.cli.commands import context
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness.tracks import Output
from imharness_embedded.photographs import SeverityLadder
from imharness_iqa import steps
from imharness_iqa.attacks.uap import Uap
from imharness_iqa.audit import IDENTITY, SEARCH, audit, unaware

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
        with pytest.raises(UsageError, match="that fit_dataset names is among the tested"):
            fitted(monkeypatch, LADDER.format(more, "test"), LADDER.format(2, "test"))


@pytest.mark.parametrize("name", ["random-noise[sigma=0.05]", "crop[size=24]", "real-esrgan[backbone=embedded]"])
def test_clean_images_are_defended_once_with_the_draws_of_the_attacked_ones(monkeypatch, name: str) -> None:
    """Images of two sizes: each meets the defense attacked alone, and is compared with what was kept of it clean."""
    registry = installed()
    ladder = registry.one("dataset", LADDER.format(1, "test"))
    whole = ladder.build(torch.device("cpu")).first(5)
    cut = [pixels[:, : 32 - 4 * (i > 2)] for i, pixels in enumerate(whole.load(range(5)))]
    shapes = tuple((pixels.shape[1], pixels.shape[2]) for pixels in cut)
    mixed = ImageSet(whole.names, shapes, lambda places: torch.stack([cut[p] for p in places]), whole.columns)
    monkeypatch.setattr(SeverityLadder, "build", lambda self, device: mixed)
    defense, metric = registry.one("defense", name), registry.one("metric", "embedded-cnn")
    roles = {
        "dataset": ladder,
        "metric": metric,
        "attack": registry.one("attack", "ifgsm[iterations=1]"),
        "defense": defense,
        "distance.mae": registry.one("metric", "mae"),
    }
    run = context(roles, options={"adaptive": False, "samples": 1}, device="cpu")
    made, kept = (Output(r.rows, r.arrays) for r in (steps.attack(run), steps.purify(run)))
    needs = {"attacked": Output({**made.rows, "gradient": np.array(["own"] * 5)}, made.arrays), "purified": kept}
    own = context(roles, options={"adaptive": False, "samples": 1}, needs=needs, device="cpu")
    met: list[torch.Tensor] = []
    plain = steps.purified
    monkeypatch.setattr(steps, "purified", lambda *given: met.append(given[3]) or plain(*given))
    rows, scores = steps.evaluate(own).rows, steps.defended(own).rows["score"]
    assert sorted(len(batch) for batch in met) == [2, 3]
    purify, score = defense.build(torch.device("cpu")), metric.build(torch.device("cpu"))
    for i, pixels in enumerate(cut):
        both = torch.stack([met[i > 2][i - 3 * (i > 2)], pixels])
        with torch.no_grad():
            cleaned, clean = purify(both, own.rng([mixed.names[i]] * 2, "defense", defense.label)).split(1)
            found = score(cleaned), score(clean), (cleaned - clean).abs().mean()
        if cleaned.shape[2:] == pixels.shape[1:]:
            assert rows["defended_mae"][i] == pytest.approx(float(found[2]), abs=1e-6)
        assert rows["score"][i] == pytest.approx(float(found[0]), abs=1e-4)
        assert scores[i] == pytest.approx(float(found[1]), abs=1e-4)


def test_all_audits_are_shown_what_one_attack_on_the_metric_alone_makes() -> None:
    registry = installed()
    roles = {
        "dataset": registry.one("dataset", LADDER.format(1, "test")),
        "metric": registry.one("metric", "embedded-cnn"),
        "attack": registry.one("attack", "apgd[radius=0.0314,steps=2]"),
        SEARCH: registry.one("attack", "square[eps=0.0314,queries=3]"),
    }
    options = {"adaptive": True, "images": 3, "samples": 1}
    made = unaware(context(roles, options=options, device="cpu")).arrays
    guards = {"defense": registry.one("defense", "flip"), IDENTITY: registry.one("defense", "none")}
    run = context({**roles, **guards}, options=options, needs={"unaware": Output({}, made)}, device="cpu")
    rows = audit(run).rows
    found = dict(zip(zip(rows["check"], rows["name"], strict=True), rows["floor"], strict=True))
    score, (lower, upper) = roles["metric"].build(torch.device("cpu")), roles["metric"].bounds
    images, attack = run.images(), roles["attack"].with_parameters(steps=4)
    guard = guards["defense"].build(torch.device("cpu"))
    for name in {name for check, name in found if check == "transferred images"}:
        pixels = images.load([images.names.index(name)])
        target = run.target("metric", [name], attack="attack", counted=False)
        moved = attack.build(torch.device("cpu"))(pixels, target, run.rng([name], "attack", attack.label))
        with torch.no_grad():
            before, after = (score(guard(x, run.rng([name]))) for x in (pixels, moved.mul(255).round() / 255))
        gain = float((after.clamp(lower, upper) - before.clamp(lower, upper)) / (upper - lower))
        assert found["transferred images", name] == pytest.approx(gain, abs=1e-3)

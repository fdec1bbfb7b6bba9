"""Steps of the IQA track: what attacks are trained on, clean images behind a defense, audits, changes taken back."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from imharness.cli.commands import context
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.images import ImageRng, Purification
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness.tracks import TAKEN_BACK, Output
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
    settings = {
        "select": {"dataset": ["severity-ladder"], "metric": ["embedded-cnn"], "attack": ["uap"], "defense": ["none"]},
        "options": {"fit_dataset": LADDER.format(1, split)},
    }
    profile = Profile(name="test", description="", tracks={"harness/iqa": settings})
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
    """Images have two sizes; each attacked one passes the defense, and is compared with its stored clean version."""
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
    attacked, purified = (Output(r.rows, r.arrays) for r in (steps.attack(run), steps.purify(run)))
    needs = {
        "attacked": Output({**attacked.rows, "gradient": np.array(["own"] * 5)}, attacked.arrays),
        "purified": purified,
    }
    run_context = context(roles, options={"adaptive": False, "samples": 1}, needs=needs, device="cpu")
    met: list[torch.Tensor] = []
    plain = steps.purified
    monkeypatch.setattr(steps, "purified", lambda *arguments: met.append(arguments[3]) or plain(*arguments))
    rows, scores = steps.evaluate(run_context).rows, steps.defended(run_context).rows["score"]
    assert sorted(len(batch) for batch in met) == [2, 3]
    purify, score = defense.build(torch.device("cpu")), metric.build(torch.device("cpu"))
    for i, pixels in enumerate(cut):
        both = torch.stack([met[i > 2][i - 3 * (i > 2)], pixels])
        with torch.no_grad():
            cleaned, clean = purify(both, run_context.rng([mixed.names[i]] * 2, "defense", defense.label)).split(1)
            expected = score(cleaned), score(clean), (cleaned - clean).abs().mean()
        if cleaned.shape[2:] == pixels.shape[1:]:
            assert rows["defended_mae"][i] == pytest.approx(float(expected[2]), abs=1e-6)
        assert rows["score"][i] == pytest.approx(float(expected[0]), abs=1e-4)
        assert scores[i] == pytest.approx(float(expected[1]), abs=1e-4)


def test_all_audits_are_shown_what_one_attack_on_the_metric_alone_makes() -> None:
    registry = installed()
    roles = {
        "dataset": registry.one("dataset", LADDER.format(1, "test")),
        "metric": registry.one("metric", "embedded-cnn"),
        "attack": registry.one("attack", "apgd[radius=0.0314,steps=2]"),
        SEARCH: registry.one("attack", "square[eps=0.0314,queries=3]"),
    }
    options = {"adaptive": True, "images": 3, "samples": 1}
    unaware_arrays = unaware(context(roles, options=options, device="cpu")).arrays
    guards = {"defense": registry.one("defense", "flip"), IDENTITY: registry.one("defense", "none")}
    run = context({**roles, **guards}, options=options, needs={"unaware": Output({}, unaware_arrays)}, device="cpu")
    rows = audit(run).rows
    floors = dict(zip(zip(rows["check"], rows["name"], strict=True), rows["floor"], strict=True))
    score, (lower, upper) = roles["metric"].build(torch.device("cpu")), roles["metric"].bounds
    images, attack = run.images(), roles["attack"].with_parameters(steps=4)
    guard = guards["defense"].build(torch.device("cpu"))
    for name in {name for check, name in floors if check == "transferred images"}:
        pixels = images.load([images.names.index(name)])
        target = run.target("metric", [name], attack="attack", counted=False)
        moved = attack.build(torch.device("cpu"))(pixels, target, run.rng([name], "attack", attack.label))
        with torch.no_grad():
            before, after = (score(guard(x, run.rng([name]))) for x in (pixels, moved.mul(255).round() / 255))
        gain = float((after.clamp(lower, upper) - before.clamp(lower, upper)) / (upper - lower))
        assert floors["transferred images", name] == pytest.approx(gain, abs=1e-3)


def evaluated(monkeypatch, defense: Purification, images: torch.Tensor) -> np.ndarray:
    """Return the column `elsewhere` of the step `evaluate`, for images ``(n, 3, H, W)`` and changes of 2/255."""
    registry = installed()
    ladder = registry.one("dataset", LADDER.format(1, "test"))
    names = [f"i{i}" for i in range(len(images))]
    shapes = [tuple(images.shape[2:])] * len(images)
    monkeypatch.setattr(
        SeverityLadder, "build", lambda self, device: ImageSet(names, shapes, lambda places: images[places], {})
    )
    roles = {
        "dataset": ladder,
        "metric": registry.one("metric", "embedded-cnn"),
        "defense": defense,
        "distance.mae": registry.one("metric", "mae"),
    }
    signs = torch.randn(images.shape, generator=torch.Generator().manual_seed(0)).sign()
    name = steps.stack_name(images.shape[2:])
    attacked = (images * 255 + 2 * signs).clamp(0, 255).round().byte().numpy()
    needs = {
        "attacked": Output({"gradient": np.array(["own"] * len(images))}, {name: attacked}),
        "purified": Output({}, steps.purify(context(roles, device="cpu")).arrays),
    }
    run = context(roles, options={"adaptive": False, "samples": 1}, needs=needs, device="cpu")
    return np.asarray(steps.evaluate(run).rows["elsewhere"])


def test_jpeg_on_jpegs_takes_changes_back_elsewhere_and_a_look_up_does_not(monkeypatch) -> None:
    registry = installed()
    photographs = registry.one("dataset", "pictures[size=72]").build(torch.device("cpu")).load(range(0, 36, 6))
    jpeg = registry.one("defense", "jpeg[quality=10]")
    stored = jpeg.build(torch.device("cpu"))(photographs, ImageRng(range(6)))
    honest = evaluated(monkeypatch, jpeg, stored)
    assert np.isfinite(honest).sum() >= 3, "JPEG takes these changes back"
    assert (honest[np.isfinite(honest)] <= TAKEN_BACK).all()

    def build(self, device):
        def purify(images, rng):
            least, index = torch.cdist(images.flatten(1), stored.flatten(1)).min(dim=1)
            return torch.where((least < 5)[:, None, None, None], stored[index], images)

        return purify

    monkeypatch.setattr(type(jpeg), "build", build)
    assert (evaluated(monkeypatch, jpeg, stored) > 0.9).all()
    assert np.isnan(evaluated(monkeypatch, registry.one("defense", "none"), stored)).all(), "it takes nothing back"

"""Full-reference metrics under attack: closed forms, and every image is compared with its own reference."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from imharness.cli.commands import context
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.images import (
    BaseAttack,
    FittedAttack,
    FullReferenceMetric,
    FullReferenceScore,
    MetricInfo,
)
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness.tracks import Output
from imharness_iqa import steps
from imharness_iqa.attacks.uap import Uap
from imharness_iqa.certifying import certify_compared, smooth_compared
from imharness_iqa.references import CLOSER, FARTHER
from imharness_iqa.tables.compared import tables

CPU = torch.device("cpu")
SMALL = {"queries": 30, "steps": 3, "pairs": 3, "population": 6, "generations": 2, "iterations": 3}
SMALL |= {"tile": 16, "epochs": 2, "width": 4, "depth": 3, "pixels": 5, "batch": 2}
LEVELS = (0.15, 0.4, 0.65, 0.9)
"""The grey levels by which references are told apart."""


class Psnr(FullReferenceMetric):
    """Peak signal-to-noise ratio, at most 160 dB."""

    info = MetricInfo(id="test/psnr", version="1", higher_means="better_quality", bounds=(0.0, 160.0))

    def build(self, device: torch.device) -> FullReferenceScore:
        return lambda images, reference: -10 * ((images - reference).square().mean(dim=(1, 2, 3)) + 1e-16).log10()


class Mse(FullReferenceMetric):
    """Mean squared error."""

    info = MetricInfo(id="test/mse", version="1", higher_means="worse_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> FullReferenceScore:
        return lambda images, reference: (images - reference).square().mean(dim=(1, 2, 3))


class Aligned(FullReferenceMetric):
    """A distance that refuses an image whose grey level is not that of its reference."""

    info = MetricInfo(id="test/aligned", version="1", higher_means="worse_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
            levels = torch.tensor(LEVELS)
            nearest = [(x.mean(dim=(1, 2, 3))[:, None] - levels).abs().argmin(dim=1) for x in (images, reference)]
            if not torch.equal(*nearest):
                raise AssertionError(f"images {nearest[0].tolist()} meet references {nearest[1].tolist()}")
            return (images - reference).square().mean(dim=(1, 2, 3))

        return score


def grey(distorted: bool = True, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and their references, of different grey levels."""
    reference = torch.tensor(LEVELS).view(-1, 1, 1, 1).expand(-1, 3, size, size).mul(255).round().div(255).contiguous()
    noise = torch.randint(-12, 13, reference.shape, generator=torch.Generator().manual_seed(0)) / 255
    return (reference + noise * distorted).mul(255).round().div(255).clamp(0, 1), reference


def as_set(images: torch.Tensor, reference: torch.Tensor | None) -> ImageSet:
    """Return images as a data set, with their originals if there are any."""
    names = tuple(f"image{i}" for i in range(len(images)))
    shapes = tuple((x.shape[1], x.shape[2]) for x in images)
    columns = {"mos": np.arange(len(images), dtype=float)}
    clean = None if reference is None else lambda places: reference[list(places)]
    return ImageSet(names, shapes, lambda places: images[list(places)], columns, "", clean)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs steps on a data set, metric, attack and defense."""
    metrics = [Registered(metric, "test", Provenance("test", "1")) for metric in (Psnr(), Mse(), Aligned())]
    registry = installed().joined(metrics)
    monkeypatch.setattr("imharness.cli.commands.installed", lambda: registry)

    def made(images: ImageSet, metric: FullReferenceMetric, attack: BaseAttack, defense: str = "none", **options):
        dataset = registry.one("dataset", "severity-ladder")
        monkeypatch.setattr(type(dataset), "build", lambda self, device: images)
        roles = {
            "dataset": dataset,
            "metric": metric,
            "attack": attack,
            "defense": registry.one("defense", defense),
            "distance.linf": registry.one("metric", "linf"),
        }
        settings = {"adaptive": False, "samples": 1, "fit_images": 100, "attacked": False, "images": 4, **options}

        def step(which, needs: Mapping[str, Output] | None = None) -> Output:
            result = which(context(roles, options=settings, needs=needs or {}, device="cpu"))
            return Output({k: np.asarray(v) for k, v in result.rows.items()}, result.arrays)

        return step

    return made


def evaluated(step) -> tuple[Output, Output]:
    """Return what an attack made of the images, and the scores around the defense."""
    attacked = step(steps.attack_compared)
    return attacked, step(steps.evaluate_compared, {"attacked": attacked, "purified": step(steps.purify)})


@pytest.mark.parametrize("metric", [Psnr(), Mse()], ids=lambda m: m.label)
def test_the_best_attack_towards_a_reference_moves_every_value_to_it_as_far_as_the_ball_allows(run, metric) -> None:
    """PSNR and MSE depend on a sum over pixels, so the best change in the ball is known: r - x, clipped to the ball."""
    images, reference = grey()
    attack = installed().one("attack", f"ifgsm[alpha={1 / 255},radius={5 / 255},iterations=12]")
    attack_output, rows = evaluated(run(as_set(images, reference), metric, attack))
    best = images + (reference - images).clamp(-5 / 255, 5 / 255)
    score = metric.build(CPU)
    attacked = torch.from_numpy(attack_output.arrays["images-32x32"]).float() / 255
    torch.testing.assert_close(attacked, best, rtol=0, atol=1e-6)
    np.testing.assert_allclose(rows.rows["score"], score(best, reference), rtol=1e-4)
    np.testing.assert_allclose(rows.rows["source"], score(images, reference), rtol=1e-4)
    gain = rows.rows["sign"] * (rows.rows["score"] - rows.rows["defended"])
    assert (gain > 0).all()
    assert set(rows.rows["threat"]) == {CLOSER}
    assert not rows.rows["is_reference"].any()


@pytest.mark.parametrize(("metric", "worst"), [(Psnr(), -20 * np.log10(5 / 255)), (Mse(), (5 / 255) ** 2)])
@pytest.mark.parametrize("name", ["ifgsm[alpha={0},radius={5},iterations=8]", "apgd[radius={5},steps=8]"])
def test_without_an_original_the_worst_image_in_the_ball_differs_by_its_radius_everywhere(
    run, metric, worst, name
) -> None:
    """The attack starts at the reference, where the gradient of a distance is zero, and must move away nevertheless."""
    images, _ = grey(distorted=False)
    attack = installed().one("attack", name.replace("{0}", str(1 / 255)).replace("{5}", str(5 / 255)))
    attack_output, rows = evaluated(run(as_set(images, None), metric, attack))
    attacked = torch.from_numpy(attack_output.arrays["images-32x32"]).float() / 255
    torch.testing.assert_close((attacked - images).abs(), torch.full_like(images, 5 / 255), rtol=0, atol=1e-6)
    np.testing.assert_allclose(rows.rows["score"], [worst] * 4, rtol=1e-4)
    assert set(rows.rows["threat"]) == {FARTHER}
    assert rows.rows["is_reference"].all()


@pytest.mark.parametrize("originals", [True, False])
def test_an_attack_that_changes_nothing_gains_nothing(run, originals: bool) -> None:
    images, reference = grey()
    idle = installed().one("attack", "ifgsm[alpha=0.000001,iterations=1]")  # less than rounding leaves
    attacked, evaluation = evaluated(
        run(as_set(images, reference if originals else None), Psnr(), idle, "gaussian-blur")
    )
    rows = evaluation.rows
    np.testing.assert_array_equal(rows["score"], rows["defended"])
    np.testing.assert_array_equal(attacked.rows["score"], rows["source"])


def test_a_defense_is_applied_to_the_image_and_not_to_its_reference_whatever_its_size(run) -> None:
    images, reference = grey()
    attack = installed().one("attack", "ifgsm[iterations=2]")
    for name in ("gaussian-blur", "crop[size=16]"):
        attacked, evaluation = evaluated(run(as_set(images, reference), Mse(), attack, name))
        guard = installed().one("defense", name)
        rng = context({"defense": guard, "dataset": installed().one("dataset", "severity-ladder")}, device="cpu").rng
        attacked_images = torch.from_numpy(attacked.arrays["images-32x32"]).float() / 255
        cleaned = guard.build(CPU)(attacked_images, rng([f"image{i}" for i in range(4)], "defense", guard.label))
        whole = torch.nn.functional.interpolate(cleaned, (32, 32), mode="bicubic", antialias=True, align_corners=False)
        expected = (whole.clamp(0, 1) - reference).square().mean(dim=(1, 2, 3))
        np.testing.assert_allclose(evaluation.rows["score"], expected, rtol=1e-4, atol=1e-7)


ATTACKS = [a for a in installed().of_kind("attack") if isinstance(a, BaseAttack) and a.info.strengths]


@pytest.mark.usefixtures("assets_at_hand")
@pytest.mark.parametrize("originals", [True, False], ids=[CLOSER, FARTHER])
@pytest.mark.parametrize("attack", [pytest.param(a, id=a.label) for a in ATTACKS])
def test_every_image_meets_its_own_reference_whatever_an_attack_asks(run, attack, originals: bool) -> None:
    """The metric fails where an image meets the reference of another one, in searches and in training."""
    try:
        attack.require()
    except Unavailable as error:
        pytest.skip(str(error))
    fields = type(attack).model_fields
    attack = attack.at("weak").with_parameters(**{k: v for k, v in SMALL.items() if k in fields})
    images, reference = grey()
    step = run(as_set(images, reference if originals else None), Aligned(), attack, adaptive=True)
    needs = {"fitted": step(steps.fit)} if isinstance(attack, FittedAttack) else {}
    assert len(step(steps.attack_compared, needs).rows["score"]) == 4


def test_an_attack_is_not_trained_for_another_threat_than_the_one_that_is_measured(run) -> None:
    images, reference = grey()
    fitted = run(as_set(images, None), Mse(), Uap(**UAP))(steps.fit)
    with pytest.raises(UsageError, match="name a fit_dataset with reference images"):
        run(as_set(images, reference), Mse(), Uap(**UAP))(steps.attack_compared, {"fitted": fitted})


UAP = {"tile": 16, "epochs": 3, "batch": 2}


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_training_that_shuffles_learns_each_image_s_own_reference(run, batch: int) -> None:
    """The distorted images lack one pattern; the tile that brings them nearer to their references is that pattern."""
    _, reference = grey(distorted=False)
    pattern = 0.05 * (1 - 2 * torch.randint(0, 2, (1, 3, 32, 32), generator=torch.Generator().manual_seed(1)))
    images = (reference - pattern).mul(255).round().div(255)
    step = run(as_set(images, reference), Mse(), Uap(tile=32, epochs=8, learning_rate=0.02, batch=batch, amplitude=1.0))
    tile = torch.from_numpy(step(steps.fit).arrays["tile"])
    assert torch.equal(tile.sign(), pattern.sign())


def smoothed(run, name: str) -> tuple[Output, Output, ImageSet]:
    """Return the noisy pass and the certificates of a certified defense."""
    images, reference = grey()
    data = as_set(images, reference)
    step = run(data, Aligned(), installed().one("attack", "ifgsm"), name)
    noisy = step(smooth_compared)
    return noisy, step(certify_compared, {"noisy": noisy}), data


def test_noisy_copies_are_compared_with_the_reference_of_their_image(run) -> None:
    """The expected squared distance of a noisy copy is that of the image plus the variance of the noise."""
    noisy, certified, data = smoothed(run, "rs[sigma=0.02,selection=20,samples=100]")
    images, reference = (load(range(4)) for load in (data.load, data.originals))
    expected = (images - reference).square().mean(dim=(1, 2, 3)) + 0.02**2
    np.testing.assert_allclose(noisy.arrays["scores"].mean(axis=(1, 2)), expected, rtol=0.02)
    assert (certified.rows["radius"] > 0).all()
    assert set(certified.rows["threat"]) == {CLOSER}


def test_a_certified_interval_holds_the_scores_of_the_images_inside_its_radius(run) -> None:
    """Median smoothing of a squared distance, whose medians are known up to the noise of 400 copies."""
    noisy, certified, data = smoothed(run, "ms[sigma=0.02,epsilon=0.005,selection=20,samples=400]")
    images, reference = (load(range(4)) for load in (data.load, data.originals))
    worst = images + 0.005 * (images - reference) / (images - reference).flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    for moved in (images, worst):
        median = (moved - reference).square().mean(dim=(1, 2, 3)).numpy() + 0.02**2
        assert (certified.rows["low"] <= median).all()
        assert (median <= certified.rows["high"]).all()
    assert len(noisy.arrays["scores"]) == 4


PICKED = {"dataset": ["pictures[size=72]"], "attack": ["ifgsm"], "defense": ["none", "flip", "rs"]}


def planned(*metrics: str, **options: object) -> dict[str, tuple[str, str]]:
    """Return the step and the metric of each task, by its key."""
    settings = {"select": {**PICKED, "metric": list(metrics)}, "options": {"strengths": ["medium"], **options}}
    profile = Profile(name="test", description="", tracks={"harness/iqa": settings})
    tasks = plan_track("harness/iqa", profile, installed()).tasks
    return {
        key: (task.spec.step, task.spec.components["metric"].label if "metric" in task.spec.components else "")
        for key, task in tasks.items()
    }


def test_a_metric_that_compares_changes_no_task_of_the_others_and_shares_none_of_their_steps() -> None:
    alone, both = planned("embedded-cnn"), planned("embedded-cnn", "ssim-uniform7")
    assert alone.items() <= both.items()
    further = {step for key, (step, _) in both.items() if key not in alone}
    assert further == {"attack_compared", "evaluate_compared", "smooth_compared", "certify_compared"}
    assert {metric for key, (_, metric) in both.items() if key not in alone} == {"harness/ssim-uniform7"}
    few = planned("embedded-cnn", "ssim-uniform7", compared=["!harness/ifgsm"])
    assert {step for key, (step, _) in few.items() if key not in alone} == {"smooth_compared", "certify_compared"}


def test_a_metric_without_bounds_says_what_it_lacks(run) -> None:
    images, reference = grey()
    step = run(as_set(images, reference), installed().one("metric", "psnr"), installed().one("attack", "ifgsm"))
    with pytest.raises(ContractError, match="harness/psnr declares no bounds"):
        step(steps.attack_compared)


def test_gains_have_the_direction_of_their_threat_and_threats_are_not_mixed(finished) -> None:
    """A distance with the range 2. An image that is its own reference counts only where every image is."""
    numbers = {  # threat -> f(r, x), f(r, D(x)), f(r, D(x')) and whether x is its own reference, of each image
        CLOSER: [(0.4, 0.5, 0.3, False), (0.8, 0.8, 0.8, False), (0.0, 0.9, 0.1, True)],
        FARTHER: [(0.0, 0.1, 0.4, True), (0.0, 0.1, 0.1, True), (0.0, 0.1, 0.1, True)],
    }
    for threat, number_rows in numbers.items():
        columns = dict(
            zip(("source", "defended", "score", "is_reference"), map(list, zip(*number_rows, strict=True)), strict=True)
        )
        fields = {"dataset": f"test/{threat[:3]}", "metric": "m", "method": "a", "strength": "weak", "adaptive": False}
        fields |= {
            "defense": "x/one",
            "threat": threat,
            "sign": -1,
            "lower": 0.0,
            "upper": 2.0,
            "ssim": 0.5,
            "proxy": "",
        }
        names = [f"i{k}" for k in range(3)]
        rows = {name: [value] * 3 for name, value in fields.items()} | columns
        rows |= {"name": names, "photograph": names, "mos": [3.0, 2.0, 1.0]}
        finished.add("evaluate_compared", rows, ("dataset", "metric", "defense"))
    rows_by_table = {table.id: table.rows[0].values for table in tables(finished.query())}
    assert set(rows_by_table) == {"compared-closer", "compared-farther"}
    closer, farther = (
        {k: v.value for k, v in rows_by_table[f"compared-{name}"].items()} for name in ("closer", "farther")
    )
    assert [closer[f"fixed_{k}"] for k in ("gain", "d", "dd")] == pytest.approx([5.0, 2.5, 5.0])
    assert [farther[f"fixed_{k}"] for k in ("gain", "d", "dd")] == pytest.approx([5.0, 10.0, 5.0])
    assert (closer["cost"], farther["cost"]) == pytest.approx((2.5, 5.0))
    assert "srocc" in closer
    assert "srocc" not in farther
    assert closer["adaptive_gain"] is None


def test_rows_of_before_the_column_had_its_name_make_no_table(finished) -> None:
    """A run computes the step again; until then tables leave it out."""
    rows = {"dataset": ["test/a"], "metric": ["m"], "defense": ["x/one"], "name": ["i"], "own": [True], "score": [0.5]}
    finished.add("evaluate_compared", rows, ("dataset", "metric", "defense"))
    assert tables(finished.query()) == []

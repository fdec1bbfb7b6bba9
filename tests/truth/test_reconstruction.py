"""Reconstruction studies whose answer is known: an attack with a closed form, defenses that add known noise."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.contracts.randomness import generator
from imharness.data import ImageDataset, ImageSet
from imharness.gradients import (
    GradientDefense,
    Gradients,
    ImageRng,
    Images,
    Info,
    Model,
    NetworkFactory,
    Progress,
    ProtectGradients,
    Reconstruct,
    ReconstructionAttack,
)
from imharness.images import FullReferenceMetric, FullReferenceScore, MetricInfo, Scores
from imharness.leaderboard import Table
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.numerics import fresh_numerics
from imharness_reconstruction.agreement import Study, agreement
from imharness_reconstruction.tables import report

TRACK, COUNT, SIDE = "harness/reconstruction", 9, 16
FINEST, RATIO = 0.004, 1.8
"""The noise of level k has a standard deviation of `FINEST * RATIO**k` in an image, values of 0 to 1."""
NETWORK = "mlp[hidden=[16]]"
PLAIN, SILENT = "harness/plain-gradient", "acme/silent"
SPOILT = ["acme/spoilt", *(f"acme/spoilt[level={level}]" for level in range(2, 7))]


def pictures() -> Images:
    """Return images of few large pixels, each of a class of its own."""
    coarse = 0.1 + 0.8 * torch.rand(COUNT, 3, 4, 4, generator=generator(0))
    return F.interpolate(coarse, (SIDE, SIDE), mode="nearest")


class Pictures(ImageDataset):
    """A few images of large pixels."""

    info = Info(id="acme/pictures", version="1")

    def build(self, device: torch.device) -> ImageSet:
        names = tuple(f"picture-{i}" for i in range(COUNT))
        columns = {"label": np.arange(COUNT)}
        return ImageSet(names, ((SIDE, SIDE),) * COUNT, lambda rows: pictures()[list(rows)], columns)


class Oracle(ReconstructionAttack):
    """Divides the gradient of the first layer's weights by that of its bias, which gives what went into the layer."""

    info = Info(id="acme/oracle", version="1")
    closed_form = True

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            weight, bias = list(gradients.values())[:2]
            rows, unit = torch.arange(len(bias)), bias.abs().argmax(dim=1)
            return (weight[rows, unit] / bias[rows, unit, None]).nan_to_num(0.5).view(-1, *shape).clamp(0, 1)

        return reconstruct


class Idle(ReconstructionAttack):
    """Gives up at once and returns noise."""

    info = Info(id="acme/idle", version="1")

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            return rng.uniform(*shape)

        return reconstruct


class Witness(ReconstructionAttack):
    """Keeps the gradients of batches of three that it was given."""

    info = Info(id="acme/witness", version="1")
    seen: ClassVar[list[Gradients]] = []

    def batches(self, images: int) -> list[list[int]]:
        return [[i, (i + 1) % images, (i + 2) % images] for i in (*range(images), 0)]

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            self.seen.append(gradients)
            return rng.uniform(*shape)

        return reconstruct


class Spoilt(GradientDefense):
    """Changes the gradient of the first weights as if the image had noise of a known level."""

    info = Info(id="acme/spoilt", version="1")
    level: int = 1

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            first, bias = list(gradients)[:2]
            noise = FINEST * RATIO**self.level * rng.normal(1, gradients[first].shape[2])
            return {**gradients, first: gradients[first] + gradients[bias][:, :, None] * noise}

        return protect


class Silent(GradientDefense):
    """Shares gradients of zero."""

    info = Info(id=SILENT, version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        return lambda gradients, rng: {name: torch.zeros_like(g) for name, g in gradients.items()}


class Onlooker(torch.nn.Module):
    """Classifies pictures rightly up to a noise that differs: picture k is hidden from level k + 1/2 on."""

    def forward(self, images: Images) -> torch.Tensor:
        gap = (images[:, None] - pictures()).square().flatten(2).mean(dim=2).sqrt()
        distance, nearest = gap.min(dim=1)
        hidden = distance > FINEST * RATIO ** (nearest + 0.5)
        return F.one_hot((nearest + hidden) % COUNT, COUNT).float()


class Eyes(Model):
    """Builds the classifier that is asked instead of people: `Onlooker`."""

    info = Info(id="acme/eyes", version="1")
    trained = True

    def build(self, device: torch.device) -> NetworkFactory:
        return lambda shape, classes, rng: Onlooker()


class Nearness(FullReferenceMetric):
    """Minus the mean squared error, and with `sign` -1 the error itself under the same declared direction."""

    info = MetricInfo(id="acme/nearness", version="1", higher_means="more_leakage")
    sign: int = 1

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            return -self.sign * (images - reference).square().flatten(1).mean(dim=1)

        return score


class Results(ResultQuery):
    """Results of a run, with the tables that are made of them."""

    def tables(self) -> dict[str, Table]:
        return {table.id: table for table in report(self).tables}


OWN = (Pictures(), Oracle(), Idle(), Witness(), Spoilt(), Silent(), Eyes(), Nearness(), Nearness(sign=-1))


def run(folder: Path, attacks: list[str], defenses: list[str], metrics: list[str]) -> Results:
    """Plan and run the track on the pictures; return its results."""
    components: tuple[Component, ...] = OWN
    registry = installed().joined([Registered(c, "test", Provenance("test", "1")) for c in components])
    select = {
        "dataset": ["acme/pictures"],
        "model": [NETWORK],
        "attack": attacks,
        "defense": defenses,
        "metric": metrics,
    }
    settings = TrackProfile(select=select, options={"judge": "acme/eyes"})
    graph = plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(folder), torch.device("cpu"), 16)
    with fresh_numerics():  # as a worker computes
        records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    return Results(cache.store, records)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Results:
    metrics = ["psnr", "mse", "ssim-uniform7", "acme/nearness", "acme/nearness[sign=-1]"]
    return run(tmp_path_factory.mktemp("study"), ["acme/oracle"], [PLAIN, SILENT, *SPOILT], metrics)


def order(table: Table, column: str) -> list[str]:
    """Return defenses by the number in a column, the smallest first."""
    ranked = sorted(table.rows, key=lambda row: row.values[column].value)
    return [row.label.partition(" + ")[2] for row in ranked]


def test_a_metric_that_ranks_backwards_has_rho_minus_one(study: Results) -> None:
    agreement = study.tables()["agreement"]
    rho = next(c.key for c in agreement.columns if c.label.startswith("rho, oracle"))
    values = {row.label: row.values for row in agreement.rows}
    for metric, expected in (("acme/nearness", 1), ("acme/nearness[sign=-1]", -1), ("harness/mse", 1)):
        assert values[metric][rho].value == pytest.approx(expected)
        assert values[metric][f"{rho} absolute"].value == pytest.approx(1)
    assert agreement.rows[-1].label == "acme/nearness[sign=-1]"


def test_what_gives_the_original_back_leaks_most_and_zeros_leak_least(study: Results) -> None:
    models = study.tables()["models"]
    expected = [SILENT, *SPOILT[::-1], PLAIN]
    assert [row.label.partition(" + ")[2] for row in models.rows] == expected
    for column, turned in (("harness/psnr", 1), ("harness/mse", -1), ("harness/ssim-uniform7", 1), ("recognised", 1)):
        labels = order(models, column)[::turned]
        assert labels[0] == SILENT
        assert labels[-1] == PLAIN
    plain = models.rows[-1].values
    assert plain["harness/psnr"].value == pytest.approx(58.9, abs=0.3)  # rounding to 8 bits: 10 log10(12 * 255^2) dB
    assert plain["harness/ssim-uniform7"].value > 0.999
    assert plain["recognised"].value == 1
    assert plain["converged"].value == models.rows[0].values["converged"].value == 1


def test_an_attack_that_did_not_converge_ranks_nothing(tmp_path: Path) -> None:
    models = run(tmp_path, ["acme/idle"], [PLAIN, SILENT], ["psnr"]).tables()["models"]
    for row in models.rows:
        ranked = row.label.endswith(SILENT)
        assert (row.values["harness/psnr"].value is not None) == ranked
        assert row.values["converged"].value == ranked
        if not ranked:
            assert row.values["harness/psnr"].missing == "not ranked: the attack converged for 0 of 9 images"


def test_a_batch_meets_the_full_defense_with_noise_of_its_own(tmp_path: Path) -> None:
    guards = [PLAIN, "harness/gaussian-gradient", "harness/gradient-pruning"]
    flat = {}
    for guard in guards:
        run(tmp_path / guard, ["acme/witness"], [guard], ["psnr"])
        flat[guard] = [g.flatten(1) for g in Witness.seen.pop().values()]
    plain, noisy, pruned = (torch.cat(flat[guard], dim=1) for guard in guards)
    noise = noisy - plain
    assert float(noise.std()) == pytest.approx(1e-3, rel=0.02)
    assert torch.equal(plain[0], plain[COUNT])  # the same three images
    assert abs(float(torch.corrcoef(noise[[0, COUNT]])[0, 1])) < 0.05
    assert float((pruned == 0).float().mean()) == pytest.approx(0.72, abs=0.03)  # some were 0 before


@pytest.mark.parametrize("noise", ["of images", "of models"])
def test_the_interval_of_a_metric_of_pure_noise_covers_zero(noise: str) -> None:
    models, images, covered = 12, 20, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        people = (rng.random((models, images)) < np.linspace(0.1, 0.9, models)[:, None]).astype(float)
        score = rng.normal(size=(models, images if noise == "of images" else 1))
        names = tuple(f"m{i}" for i in range(models))
        value = agreement(Study("d", "a", names, {"noise": score}, people, "people"), "noise", "rho")
        assert value.low is not None
        assert value.high is not None
        covered += value.low <= 0 <= value.high
    assert 180 <= covered <= 198, covered

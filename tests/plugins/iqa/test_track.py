"""The schedule of the random searches, and weights against their card."""

import re

import pytest
import torch

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profile import load_profile
from imharness_iqa.attacks.square import Square
from imharness_iqa.networks import ConvQuality, ResidualQuality, TransformerQuality, card, trained
from imharness_iqa.quality_training import TEST, TRAIN, bounds

CPU = torch.device("cpu")


def test_squares_follow_the_published_schedule() -> None:
    attack = Square()
    sides = [attack.side(q, 100, 100) for q in (1, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)]
    assert sides == [max(1, round((0.05 / 2**k * 10_000) ** 0.5)) for k in range(10)]
    assert Square(queries=100).side(1, 100, 100) == Square().side(100, 100, 100)


@pytest.mark.parametrize(
    ("network", "stem"),
    [
        (ConvQuality, "embedded-cnn"),
        (ResidualQuality, "embedded-residual"),
        (TransformerQuality, "embedded-transformer"),
    ],
)
def test_bounds_and_figures_are_those_of_the_card(network, stem: str) -> None:
    facts, metric, registry = card(stem), installed().one("metric", stem), installed()
    model = trained(network(), stem, CPU)
    assert metric.bounds == (facts["lower"], facts["upper"])
    assert bounds(model, registry.one("dataset", TRAIN).build(CPU), CPU) == pytest.approx(metric.bounds, abs=2e-3)
    ladder = registry.one("dataset", TEST).build(CPU)
    from scipy.stats import spearmanr

    with torch.no_grad():
        scores = model(ladder.load(list(range(len(ladder)))))
    assert spearmanr(scores, ladder.columns["mos"]).statistic == pytest.approx(facts["test_srocc"], abs=2e-3)
    assert facts["test_srocc"] >= 0.85


@pytest.mark.parametrize("name", ["embedded", "paper"])
def test_a_profile_weighs_each_of_the_fourteen_published_attacks_once(name: str) -> None:
    graph = plan_track("harness/iqa", load_profile(name), installed())
    addresses = [*(task.address for task in graph.tasks.values()), *graph.missing]
    found = {match[1] for a in addresses if (match := re.match(r"(?:attack|fit) .*attack=harness/([a-z-]+)", a))}
    assert len(found) == 14, sorted(found)
    assert sum("zhang" in attack for attack in found) == 1

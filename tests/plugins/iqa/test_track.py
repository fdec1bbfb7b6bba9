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
    assert facts["test_srocc"] >= 0.79


@pytest.mark.parametrize("name", ["embedded", "paper"])
def test_a_profile_weighs_each_of_the_fourteen_published_attacks_once(name: str) -> None:
    only = {"metric": ["harness/cnniqa"], "dataset": ["harness/koniq10k"]} if name == "paper" else {}
    graph = plan_track("harness/iqa", load_profile(name), installed(), only=only)
    addresses = [*(task.address for task in graph.tasks.values()), *graph.missing]
    found = {match[1] for a in addresses if (match := re.match(r"(?:attack|fit) .*attack=harness/([a-z-]+)", a))}
    assert len(found) == 14, sorted(found)
    assert sum("zhang" in attack for attack in found) == 1


def test_every_purification_of_the_embedded_profile_meets_the_same_attacks_that_know_it() -> None:
    tasks = plan_track("harness/iqa", load_profile("embedded"), installed()).tasks.values()
    met: dict[str, set[tuple[str, str]]] = {}
    for spec in (t.spec for t in tasks if t.spec.step == "evaluate" and t.spec.options["adaptive"]):
        if "tuned" not in spec.components:
            settings = spec.components["metric"].label, str(spec.options["method"])
            met.setdefault(spec.components["defense"].label, set()).add(settings)
    purified = {t.spec.components["defense"].label for t in tasks if t.spec.step == "purify"} - {"harness/none"}
    assert set(met) == purified
    assert len(purified) >= 20
    assert all(own == met["harness/flip"] for own in met.values())
    audited = {t.spec.components["defense"].label for t in tasks if t.spec.step == "audit"}
    assert audited > purified


def test_a_stand_in_has_the_parameters_of_the_defense() -> None:
    tasks = plan_track("harness/iqa", load_profile("embedded"), installed()).tasks.values()
    specs = [t.spec for t in tasks if t.spec.step == "attack" and "stand_in" in t.spec.components]
    pairs = {tuple(s.components[role].parameters["quality"] for role in ("defense", "stand_in")) for s in specs}
    assert pairs == {(q, q) for q in (10, 30, 50, 70, 90)}

"""Scores and tables of the track against closed forms; weights against their card."""

import numpy as np
import pytest
import torch

from harness.registry import installed
from harness_iqa.attacks.square import Square
from harness_iqa.networks import ConvQuality, ResidualQuality, card, trained
from harness_iqa.recipes.quality_training import TEST, TRAIN, bounds
from harness_iqa.tables import EPS, _figures, _scored, _srocc

CPU = torch.device("cpu")


def rows(score: list[float], source: list[float], **more) -> dict[str, np.ndarray]:
    n = len(score)
    columns = {
        "dataset": ["d"] * n, "metric": ["m"] * n, "method": ["a"] * n, "strength": ["weak"] * n,
        "name": [f"i{k}" for k in range(n)], "mos": list(range(n)), "score": score, "source": source,
        "psnr": [30.0] * n, "ssim": [0.9] * n, "mse": [0.001] * n, "linf": [0.1] * n, **more,
    }  # fmt: skip
    return {name: np.array(values) for name, values in columns.items()}


BOUNDS = {"metric": np.array(["m"]), "lower": np.array([0.0]), "upper": np.array([10.0])}


def test_d_and_r_are_those_of_the_paper() -> None:
    found = _scored(rows([5.0, 2.0, 9.0], [4.0, 2.0, 2.0]), BOUNDS)
    np.testing.assert_allclose(found["d"], [10.0, 0.0, 70.0])
    np.testing.assert_allclose(found["r"][0], np.log10(0.6 / (0.1 + EPS)))
    np.testing.assert_allclose(found["r"][2], np.log10(0.8 / (0.7 + EPS)))
    assert found["r"][1] == pytest.approx(np.log10(0.8 / EPS))
    assert found["ties"].tolist() == [0, 100, 0]


def test_each_image_counts_once_and_coverage_is_shown() -> None:
    two = rows([5.0, 2.0, 4.0], [4.0, 2.0, 4.0], name=["i0", "i1", "i0"], strength=["weak", "weak", "strong"])
    figures = _figures(_scored(two, BOUNDS), conditions=4)
    assert figures["d"].value == pytest.approx(np.mean([(10 + 0) / 2, 0]))
    assert figures["d"].n == 2
    assert figures["coverage"].value == 50


def test_srocc_is_scipys_and_a_constant_score_is_not_testable() -> None:
    from scipy.stats import spearmanr

    score = [3.0, 1.0, 2.0, 5.0, 4.0, 4.0]
    found = _srocc(_scored(rows(score, [0.0] * 6), BOUNDS))
    assert found.value == pytest.approx(spearmanr(score, range(6)).statistic)
    assert found.low <= found.value <= found.high
    assert _srocc(_scored(rows([1.0] * 6, [0.0] * 6), BOUNDS)).missing


def test_squares_follow_the_published_schedule() -> None:
    attack = Square()
    sides = [attack.side(q, 100, 100) for q in (1, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)]
    assert sides == [max(1, round((0.05 / 2**k * 10_000) ** 0.5)) for k in range(10)]
    assert Square(queries=100).side(1, 100, 100) == Square().side(100, 100, 100)


@pytest.mark.parametrize(("network", "stem"), [(ConvQuality, "embedded-cnn"), (ResidualQuality, "embedded-residual")])
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
    assert facts["test_srocc"] > 0.6

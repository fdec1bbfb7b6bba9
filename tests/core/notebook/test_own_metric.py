"""An own metric in the quality track: the answer is what attackers gain on it, in units of its measured spread."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import imharness as ih

# Four images of noise; the first has values below .4, the last below 1, so that their brightness differs.
IMAGES = torch.rand((4, 3, 32, 32), generator=torch.Generator().manual_seed(0)) * torch.tensor(
    [0.4, 0.6, 0.8, 1.0]
).view(4, 1, 1, 1)
EMBEDDED = {"harness/embedded-cnn", "harness/embedded-residual", "harness/embedded-transformer"}


def brightness(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1).mean(1)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[ih.Result]:
    """Evaluate one metric twice, with the bounds (0, 1) and (0, 5)."""
    store: Path = tmp_path_factory.mktemp("own") / "store"
    return [
        ih.evaluate(
            ih.metric(brightness, bounds=(0, top), higher_means="better_quality", name="own"),
            against=["none"],
            dataset=IMAGES,
            store=store,
            progress=False,
        )
        for top in (1, 5)
    ]


def test_its_robustness_comes_first_beside_the_embedded_metrics(results: list[ih.Result]) -> None:
    table = results[0].table()
    assert table.spec.id == "metrics"
    assert set(table.labels) == {"local/own"} | EMBEDDED
    text = repr(results[0])
    assert re.match(r"own: gain, spreads, worst attack \d+\.\d\d, number \d of 4 metrics; .* has \d+\.\d\d\.\n", text)
    assert "\nlocal/own " in text
    assert "\nranking: " in text


def test_its_gain_is_in_units_of_its_spread_whatever_it_declares(results: list[ih.Result]) -> None:
    narrow, wide = (result["own"].values for result in results)
    for name in ("gain", "reversed", "spread", "lowest", "highest"):
        assert narrow[name] == pytest.approx(wide[name])
    assert narrow["share"] == pytest.approx(5 * wide["share"])
    assert (narrow["upper"], wide["upper"]) == (1, 5)


def test_its_gain_is_what_the_rows_say(results: list[ih.Result]) -> None:
    clean, attacked = results[0].rows("clean"), results[0].rows("evaluate")
    mask = clean["metric"] == "local/own"
    score = dict(zip(clean["name"][mask], clean["score"][mask], strict=True))
    low, high = np.quantile(list(score.values()), (0.25, 0.75))
    best: dict[str, float] = {}
    plain = (attacked["metric"] == "local/own") & (attacked["defense"] == "harness/none") & ~attacked["adaptive"]
    for name, value in zip(attacked["name"][plain], attacked["score"][plain], strict=True):
        best[name] = max(best.get(name, -np.inf), value - score[name])
    assert len(best) == 4
    assert results[0]["own"].values["gain"] == pytest.approx(np.mean(list(best.values())) / (high - low), rel=1e-5)
    assert results[0]["own"].values["spread"] == pytest.approx(high - low, rel=1e-5)

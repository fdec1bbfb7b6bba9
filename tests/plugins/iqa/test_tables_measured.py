"""Defenses at equal measured distortion, on scores that are a known function of SSIM."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.iqa_rows import Finished, rows, written

from imharness_iqa.tables import report
from imharness_iqa.tables.measured import joined

NONE = "harness/none"
IMAGES = 12
OTHERS = 1000
"""Images that nobody attacks, with scores from 5 to 15. The range is 10: raising a score of 5 by 1% of it passes 1%."""


def told(report_result) -> tuple[dict, dict]:
    table = next(table for table in report_result.tables if table.id == "measured")
    curves = next(chart for chart in report_result.charts if chart.id == "curves-defenses")
    return {row.label: row.values for row in table.rows}, {line.label: line for line in curves.series}


def write(
    finished: Finished, defenses: dict[str, tuple[Callable, np.ndarray]], unmoved: str = "", lost: str = ""
) -> None:
    """Write what attacks did.

    `defenses` has by label the pairs reversed, in %, as a function of the loss 1 - SSIM, and the losses of adaptive
    attacks at three strengths. Fixed attacks have the losses of `none`, and do not move scores behind `unmoved`. The
    first image has no score behind `lost`.
    """
    columns: dict[str, list] = {}
    for label, (moved, measured_losses) in defenses.items():
        for adaptive, losses in ((False, defenses[NONE][1]), (True, measured_losses)):
            if label == NONE and adaptive:
                continue
            for strength, loss in zip(("weak", "medium", "strong"), losses, strict=True):
                rise = moved(loss) / 10 if adaptive or label != unmoved else 0.0
                more = rows(
                    [np.nan if label == lost else 5 + rise, *[5 + rise] * (IMAGES - 1)],
                    [5.0] * IMAGES,
                    defense=[label] * IMAGES,
                    strength=[strength] * IMAGES,
                    adaptive=[adaptive] * IMAGES,
                    changed_ssim=[1 - loss] * IMAGES,
                    photograph=["p"] * IMAGES,
                )
                columns = {name: [*columns.get(name, []), *values] for name, values in more.items()}
    written(finished, columns)
    still = (5 + 10 * (np.arange(OTHERS) + 0.5) / OTHERS).tolist()
    more = rows(still, still, name=[f"o{k}" for k in range(OTHERS)])
    image = {
        name: more[name]
        for name in (
            "dataset",
            "metric",
            "name",
            "mos",
            "lower",
            "upper",
            "sign",
            "photograph",
            "proxy",
            "labelled",
            "si",
            "cf",
        )
    }
    finished.add("clean", {**image, "score": still}, ("dataset", "metric"))
    for label in defenses:
        measured_losses = {name: image[name] for name in ("dataset", "metric", "name")}
        defended_rows = {**measured_losses, "defense": [label] * OTHERS, "score": still, "trained": [False] * OTHERS}
        finished.add("defended", defended_rows, ("dataset", "metric", "defense"))


@pytest.mark.parametrize("lost", ["", "x/half"])
def test_what_is_a_known_function_of_ssim_comes_out_as_its_curve_and_area(finished: Finished, lost: str) -> None:
    """Pairs reversed, %, are 40 (1 - SSIM), with a mean of 5 over SSIM from .75 to 1; x/half has half of that."""
    reached = np.array([0.05, 0.15, 0.25])
    write(finished, {NONE: (lambda loss: 40 * loss, reached), "x/half": (lambda loss: 20 * loss, reached)}, lost=lost)
    result = report(finished.query(), 0.05)
    values, lines = told(result)
    (attack,) = next(chart.series for chart in result.charts if chart.id == "curves-attacks")
    np.testing.assert_allclose(attack.y, 40 * (1 - np.array(attack.x)), atol=0.01)
    assert values[NONE]["area"].value == pytest.approx(5, abs=0.01)
    assert values["x/half"]["area"].value == values["x/half"]["unaware"].value == pytest.approx(2.5, abs=0.01)
    assert [values["x/half"][key].value for key in ("at95", "at90", "at80")] == pytest.approx([1, 2, 4], abs=0.01)
    assert (lines["x/half"].x[0], lines["x/half"].x[-1]) == (pytest.approx(0.75), 1)
    np.testing.assert_allclose(lines["x/half"].y, 20 * (1 - np.array(lines["x/half"].x)), atol=0.01)


def test_a_defense_that_only_makes_attacks_change_less_is_not_the_better_one(finished: Finished) -> None:
    """By the names of strengths x/shy ends at 12% and x/firm at 25%; at equal distortion x/shy moves more."""
    reached = np.array([0.1, 0.2, 0.25])
    write(
        finished,
        {
            NONE: (lambda loss: 300 * loss, reached),
            "x/shy": (lambda loss: 200 * loss, np.array([0.02, 0.04, 0.06])),
            "x/firm": (lambda loss: 100 * loss, reached),
        },
        unmoved="x/shy",
    )
    result = report(finished.query(), 0.05)
    nominal = {row.label: row.values["worst"].value for row in result.tables[0].rows}
    assert (nominal["x/shy"], nominal["x/firm"]) == pytest.approx((12, 25), abs=0.01)
    values, _ = told(result)
    assert list(values) == ["x/firm", "x/shy", NONE]
    assert values["x/shy"]["unaware"].value == pytest.approx(0, abs=0.01), "attacks that do not know it do nothing"
    assert values["x/firm"]["unaware"].value == pytest.approx(values["x/firm"]["area"].value, abs=0.01)
    assert values["x/shy"]["area"].value > 5
    assert values["x/shy"]["at95"].value == pytest.approx(10, abs=0.01)
    assert values["x/firm"]["at95"].value == pytest.approx(5, abs=0.01)


def test_beyond_the_largest_distortion_what_was_reached_counts_and_nothing_where_nothing_was_tried() -> None:
    distortion = np.array([[[0.2, np.nan, 0.0]], [[0.1, np.nan, 0.2]]])
    moved = np.array([[[1.0, np.nan, 3.0]], [[4.0, np.nan, 5.0]]])
    envelope = joined(distortion, moved, np.array([0.0, 0.05, 0.1, 0.3]))[0]
    np.testing.assert_allclose(envelope[0], [0, 2, 4, 4])
    assert np.isnan(envelope[1]).all()
    np.testing.assert_allclose(envelope[2], [3, 3.5, 4, 5])


def test_the_range_is_that_which_all_complete_entries_were_attacked_over(finished: Finished) -> None:
    write(
        finished,
        {
            NONE: (lambda loss: 40 * loss, np.array([0.02, 0.05, 0.1])),
            "x/half": (lambda loss: 20 * loss, np.array([0.05, 0.15, 0.25])),
        },
    )
    values, lines = told(report(finished.query(), 0.05))
    assert lines[NONE].x[0] == pytest.approx(0.9)
    assert values[NONE]["area"].value == pytest.approx(2, abs=0.01)
    assert values["x/half"]["area"].value == pytest.approx(1, abs=0.01)
    assert "at80" not in values[NONE]


def test_attacks_that_change_little_still_have_an_area(finished: Finished) -> None:
    little = np.array([0.01, 0.02, 0.03])
    write(finished, {NONE: (lambda loss: 40 * loss, little), "x/half": (lambda loss: 20 * loss, little)})
    values, _ = told(report(finished.query(), 0.05))
    assert values["x/half"]["area"].value == pytest.approx(0.3, abs=0.01)
    assert not [key for key in values[NONE] if key.startswith("at")]

"""Rankings by family: two certificates are separated if one promises more, and else in at most 5 % of studies."""

import numpy as np
import pytest

from imharness.leaderboard import Blocks
from imharness.statistics.against_one import shown_alone
from imharness_iqa.tables.families import promised
from imharness_iqa.tables.part import Part

from .studies import most

STUDIES, IMAGES = 150, 24


def certificates(seed: int, widths: tuple[float, float], abstained: tuple[float, float] = (0, 0)) -> np.ndarray:
    """Return what each image adds to the share of promised pairs, for two certificates: (2, IMAGES).

    `widths`: the mean widths of their intervals.
    `abstained`: for each certificate 1 where it abstained, and NaN where it was not measured.
    """
    rng = np.random.default_rng(seed)
    score = rng.normal(0, 1, IMAGES)
    shape = (2, IMAGES)
    middle = score + rng.normal(0, 0.2, shape)
    half = np.abs(rng.normal(np.array(widths)[:, None], 0.1, shape)) / 2
    names = np.array([f"i{k:02d}" for k in range(IMAGES)], dtype=object)
    values = {"score": middle, "low": middle - half, "high": middle + half}
    blocks = Blocks(
        ("a", "b"),
        ({"dataset": "d", "metric": "m"},),
        (names,),
        {
            **{name: (numbers,) for name, numbers in values.items()},
            "reach": (np.ones(shape),),
            "abstained": (np.repeat(np.array(abstained)[:, None], IMAGES, axis=1),),
        },
        {"mos": (score,), "sign": (np.ones(IMAGES),)},
    )
    scores = promised(Part.whole(blocks, {name: (name, "d") for name in names}))
    return np.asarray(scores.values["promised"][0])


@pytest.mark.parametrize(("widths", "least", "largest"), [((0.6, 0.6), 0, most(STUDIES)), ((0.4, 1.2), 120, STUDIES)])
def test_certificates_are_separated_apart_where_one_promises_more_and_else_in_5_percent(
    widths: tuple[float, float], least: int, largest: int
) -> None:
    separated = 0
    for seed in range(STUDIES):
        a, b = certificates(seed, widths)
        either = shown_alone(np.stack([a - b, b - a]), 100.0)
        separated += bool(either.any() if widths[0] == widths[1] else either[0])
    assert least <= separated <= largest


def test_a_certificate_that_was_not_measured_has_no_shares_and_changes_no_others() -> None:
    both, one = certificates(0, (0.6, 0.6)), certificates(0, (0.6, 0.6), (0, np.nan))
    np.testing.assert_array_equal(one[0], both[0])
    assert np.isnan(one[1]).all()

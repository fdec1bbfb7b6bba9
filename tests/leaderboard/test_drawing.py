"""Small drawings: labels stay inside their frame, off the marks and off each other, however wide the font is."""

import random
from itertools import pairwise

import pytest
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from imharness_leaderboard.drawing import LINE, Label, Mark, Scale, place_labels, width_of

FRAME = (10.0, 12.0, 310.0, 138.0)
NAMES = ("mae", "mmm", "lenet + laplacian-gradient", "MemGuard", "jpeg quality=10", "r", "WWW-Wide + Moment")


def box(label: Label) -> tuple[float, float, float, float]:
    long = width_of(label.text, bold=label.kind == "winner")
    left_edge = label.x - {"start": 0.0, "middle": long / 2, "end": long}[label.anchor]
    return left_edge, label.y - LINE + 3, left_edge + long, label.y + 3


@pytest.mark.parametrize("seed", range(40))
def test_labels_stay_inside_the_frame_and_off_each_other(seed: int) -> None:
    draw = random.Random(seed)
    kinds = ("winner", "control", "front", "plain")
    marks = [
        Mark(draw.uniform(FRAME[0], FRAME[2]), draw.uniform(FRAME[1], FRAME[3]), draw.choice(NAMES), kind, "")
        for kind in kinds
    ]
    boxes = [box(label) for label in place_labels(marks, [0], FRAME)]
    for left_edge, top, right, bottom in boxes:
        assert FRAME[0] - 0.1 <= left_edge <= right <= FRAME[2] + 0.1
        assert FRAME[1] - 0.1 <= top <= bottom <= FRAME[3] + 0.1
    for i, (left_edge, top, right, bottom) in enumerate(boxes):
        for a, t, r, b in [*boxes[:i], *((m.x - 5, m.y - 5, m.x + 5, m.y + 5) for m in marks)]:
            assert not (left_edge < r - 0.1 and a < right - 0.1 and top < b - 0.1 and t < bottom - 0.1)


@pytest.mark.parametrize("corner", [(12, 14), (308, 14), (12, 136), (308, 136), (160, 75)])
def test_a_long_name_finds_room_at_every_corner(corner: tuple[float, float]) -> None:
    (label,) = place_labels([Mark(*corner, "lenet + laplacian-gradient", "winner", "")], [0], FRAME)
    left_edge, _, right, _ = box(label)
    assert FRAME[0] - 0.1 <= left_edge < right <= FRAME[2] + 0.1


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_no_name_is_wider_than_it_is_taken_for(weight: str) -> None:
    font = FT2Font(findfont(FontProperties(family="DejaVu Sans", weight=weight)))
    font.set_size(12, 72)
    for name in NAMES:
        real = sum(font.load_char(ord(sign)).linearHoriAdvance / 65536 for sign in name)
        assert real <= width_of(name, bold=weight == "bold") * 1.02, name


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.05, 0.95, [0.2, 0.4, 0.6, 0.8]),
        (18, 62, [20, 30, 40, 50, 60]),
        (0.859, 0.886, [0.86, 0.87, 0.88]),
        (3, 3, [3]),
    ],
)
def test_an_axis_has_round_numbers(low: float, high: float, wanted: list[float]) -> None:
    assert Scale(low, high, 0, 100).ticks() == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(50))
def test_an_axis_has_numbers_within_its_ends_at_equal_steps(seed: int) -> None:
    draw = random.Random(seed)
    low = draw.uniform(-100, 100)
    high = low + 10 ** draw.uniform(-3, 4)
    ticks = Scale(low, high, 0, 100).ticks()
    assert 2 <= len(ticks) <= 5
    assert low - 1e-9 <= ticks[0] < ticks[-1] <= high + 1e-9
    steps = {round(b - a, 6) for a, b in pairwise(ticks)}
    assert len(steps) == 1 or max(steps) - min(steps) < 1e-5

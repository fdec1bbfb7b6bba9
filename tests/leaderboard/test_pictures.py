"""What pictures show: labels beside points and on none, intervals without a false zero, bars of ties off the scale."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from imharness.results.boards import Board
from imharness.results.charts import Chart, Series
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness_leaderboard.chart_pictures import chart_pictures
from imharness_leaderboard.chart_titles import title_of_boxes, title_of_ranks
from imharness_leaderboard.comparison_pictures import PARTIAL, comparison_pictures
from imharness_leaderboard.names import display_names
from imharness_leaderboard.numbers import csv_bytes
from imharness_leaderboard.picture import WIDTH, Picture, darkened
from imharness_leaderboard.ranking_pictures import Heat, draw_heat, heat_high, ranking_pictures
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.wording import brief, short

from .conftest import PHOTOGRAPHS, board, paired
from .contested import ATTACKS, FLIP, JPEG, LEVELS, NONE, blocks, report

X, Y = (ColumnSpec(key=key, label=key, description="", better="higher") for key in "xy")


def table(points: Sequence[tuple[float, float]], label: str = "harness/a-name-of-usual-length[n={}]") -> Table:
    rows = tuple(
        Row(label=label.format(i), values={"x": Value(value=x), "y": Value(value=y)}) for i, (x, y) in enumerate(points)
    )
    return Table(id="t", title="T", caption="", entry="defense", columns=(X, Y), rows=rows)


def scatter(
    points: Sequence[tuple[float, float]], label: str = "harness/a-name-of-usual-length[n={}]", **changes: object
) -> Picture:
    chart = Chart(id="c", title="C", caption="", kind="scatter", table="t", x="x", y="y", front=True, **changes)
    return next(chart_pictures(board(tables=(table(points, label),), charts=(chart,)), chart))


@pytest.fixture(scope="module")
def screen(browser: Browser) -> Iterator[Page]:
    """A page that shows one picture after the other."""
    made = browser.new_page(viewport={"width": 1000, "height": 900})
    yield made
    made.close()


def boxes(screen: Page, svg: bytes) -> dict[str, list[dict[str, float]]]:
    """The boxes on the screen of all labels of points, and of all markers."""
    screen.set_content(svg.decode())
    return screen.evaluate(
        """() => {
          const box = (e) => { const b = e.getBoundingClientRect();
            return {text: e.textContent.trim(), x: b.x, y: b.y, r: b.right, b: b.bottom}; };
          const axis = (e) => e.closest('[id^=matplotlib]') !== null;
          return {labels: [...document.querySelectorAll('text')].filter((e) => !axis(e)).map(box),
                  markers: [...document.querySelectorAll('[id^=PathCollection] use')].map(box)};
        }"""
    )


def apart(a: dict[str, float], b: dict[str, float], slack: float = 0.5) -> bool:
    return a["r"] <= b["x"] + slack or b["r"] <= a["x"] + slack or a["b"] <= b["y"] + slack or b["b"] <= a["y"] + slack


CROWD = [(float(x), float(y)) for x, y in np.random.default_rng(3).normal(0.5, 0.12, (24, 2)).round(3)]
RIDGE = [(1 - 0.004 * i, 0.5 + 0.004 * i) for i in range(9)]
"""Nine points on the front, closer to each other than their labels are long."""


@pytest.mark.parametrize("points", [CROWD, RIDGE, [*CROWD, *RIDGE]], ids=["crowd", "ridge", "both"])
def test_labels_lie_on_nothing_and_every_point_of_the_front_has_one(screen: Page, points) -> None:
    picture = scatter(points)
    found = boxes(screen, picture.svg("light"))
    labels = found["labels"]
    wanted = {brief(label) for label, on in zip(picture.data["label"], picture.data["front"], strict=True) if on}
    assert wanted
    assert wanted <= {label["text"] for label in labels}
    assert len(found["markers"]) == len(points)
    for i, label in enumerate(labels):
        assert all(apart(label, other) for other in labels[:i]), label
        assert all(apart(label, marker) for marker in found["markers"]), label


def test_the_front_of_a_picture_is_the_one_a_sort_finds() -> None:
    points = np.array(CROWD)
    order = np.lexsort((-points[:, 1], -points[:, 0]))
    best, front = -np.inf, set()
    for i in order:
        if points[i, 1] > best:
            best = points[i, 1]
            front.add(int(i))
    assert {i for i, on in enumerate(scatter(CROWD).data["front"]) if on} == front


def ticks(svg: bytes) -> list[float]:
    """The numbers of the x axis."""
    axis = svg.decode().split('id="matplotlib.axis_1"')[1].split('id="matplotlib.axis_2"')[0]
    return [float(text.replace("−", "-")) for text in re.findall(r">([−\d.]+)</text>", axis)]


def test_dots_span_what_they_show_and_not_zero() -> None:
    rows = tuple(
        Row(label=f"a/{i}", values={"x": Value(value=v, low=v - 0.02, high=v + 0.02)})
        for i, v in enumerate((0.86, 0.9, 0.97))
    )
    own = Table(id="t", title="T", caption="", entry="metric", columns=(X,), rows=rows)
    chart = Chart(id="c", title="C", caption="", kind="dots", table="t", x="x")
    picture = next(chart_pictures(board(tables=(own,), charts=(chart,)), chart))
    assert picture is not None
    svg = picture.svg("light")
    assert min(ticks(svg)) > 0.8
    assert picture.data == {
        "metric": ["a/0", "a/1", "a/2"],
        "x": [0.86, 0.9, 0.97],
        "low": [0.84, 0.88, 0.95],
        "high": [0.88, 0.92, 0.99],
    }


def test_bars_of_ties_stand_beside_the_axes(screen: Page) -> None:
    comparison, numbers = paired().stored()
    scores = Scores(board(), comparison, numbers)
    picture = next(p for p in comparison_pictures(board(), scores) if p.name.endswith("-ranks"))
    screen.set_content(picture.svg("light").decode())
    found = screen.evaluate(
        """() => { const box = (e) => e.getBoundingClientRect();
          return {frame: box(document.querySelector('#patch_2')).right,
                  bars: [...document.querySelectorAll('[id^=tied-]')].map((e) => box(e).left)}; }"""
    )
    assert found["bars"]
    assert min(found["bars"]) > found["frame"]


def pictured(comparison, numbers: np.ndarray) -> dict[str, Picture]:
    found = comparison_pictures(board(), Scores(board(), comparison, numbers))
    return {picture.name.rpartition("-")[2]: picture for picture in found}


def test_titles_of_ranks_and_boxes_say_what_is_drawn() -> None:
    comparison, numbers = paired().stored()
    found = pictured(comparison, numbers)
    ranks = list(zip(*found["ranks"].data.values(), strict=True))
    best, rank = min(ranks, key=lambda row: row[1])
    bars = re.findall(r"tied-0-(\d+)", found["ranks"].svg("light").decode())
    assert found["ranks"].title.startswith(f"{display_names([best])[best]} has the best mean rank, {rank:.2f}, and is ")
    assert ("not told from" in found["ranks"].title) == bool(bars)
    assert found["ranks"].caption.startswith("Critical differences: ")
    spread = found["spread"].data
    sign = 1 if comparison.better == "higher" else -1
    rows = sorted(zip(spread["defense"], spread["50%"], strict=True), key=lambda row: -sign * row[1])
    (best, first), (_, second) = rows[:2]
    assert (
        found["spread"]
        .title.removeprefix("Of complete entries, ")
        .startswith(f"{display_names([best])[best]} has the {'highest' if sign > 0 else 'lowest'} median ")
    )
    assert f": {first:.3g}; next " in found["spread"].title
    assert found["spread"].title.endswith(f", {second:.3g}")
    assert found["spread"].caption.startswith("Distribution of ")


def test_titles_of_ranks_and_boxes_name_no_best_where_the_best_tie() -> None:
    labels = ["harness/a", "harness/b", "harness/c", "harness/d", "harness/e", "harness/f"]
    assert title_of_ranks(labels[:2], [1.5, 1.5], 1) == ""
    assert title_of_ranks(labels[:2], [1.0, 2.0], 0) == "A has the best mean rank, 1.00, and is told from B, the next"
    many = title_of_ranks(labels, [1.2, 2.0, 3.0, 4.0, 5.0, 5.8], 5)
    assert many == "A has the best mean rank, 1.20, and is not told from B, C, D and 2 more"
    assert title_of_boxes(labels[:2], [0.5, 0.5], "D", "lower") == ""
    assert title_of_boxes(labels[:1], [0.5], "D", "lower") == ""
    assert title_of_boxes(labels[:3], [3.0, 0.5, 2.0], "D", "lower") == "B has the lowest median of D: 0.5; next C, 2"


def test_the_title_of_distributions_compares_only_entries_that_met_the_same_conditions() -> None:
    """The last entry met the two easy of three conditions alone, and so has the lowest median."""
    made = report()
    comparison, numbers = made.comparisons[0].stored()
    starts, few = comparison.starts(), comparison.entries.index(FLIP)
    changed = numbers.copy()
    changed[few] = 0.25
    own = board(tables=tuple(made.tables), rankings=(), charts=())

    def spread() -> Picture:
        pictures = comparison_pictures(own, Scores(own, comparison, changed))
        return next(picture for picture in pictures if picture.name.endswith("-spread"))

    full = spread()
    assert full.title.removeprefix("Of complete entries, ").startswith("Flip has the lowest median")
    changed[few, starts[0] : starts[1]] = np.nan
    partial = spread()
    assert partial.title.startswith("Of complete entries, ")
    assert "Flip" not in partial.title
    assert partial.caption.endswith(PARTIAL)
    assert FLIP in partial.data["defense"]


def test_distributions_are_those_of_what_tests_see_once() -> None:
    comparison, numbers = paired(clusters=PHOTOGRAPHS).stored()
    scores = Scores(board(), comparison, numbers)
    names = sorted({own for units in comparison.unit_sets for own in units})
    photographs = [
        [names.index(image) for image in PHOTOGRAPHS if PHOTOGRAPHS[image] == f"photograph {i}"] for i in range(7)
    ]
    wanted = np.stack([scores.means[:, own].mean(axis=1) for own in photographs], axis=1)
    assert np.sort(scores.independent, axis=1) == pytest.approx(np.sort(wanted, axis=1))
    spread = pictured(comparison, numbers)["spread"]
    medians = dict(zip(spread.data["defense"], spread.data["50%"], strict=True))
    assert medians == pytest.approx({name: np.median(wanted[i]) for i, name in enumerate(comparison.entries)})
    assert "quartiles over the photographs, each with its mean over its images and conditions" in spread.caption
    assert scores.independent_unit == "photograph"
    free = Scores(board(), *paired().stored())
    assert free.independent is free.means
    assert free.independent_unit == "image"


def test_rows_of_0_and_1_have_a_distribution_by_what_they_come_from() -> None:
    comparison, numbers = paired(clusters=PHOTOGRAPHS).stored()
    guessed = np.where(np.isnan(numbers), np.nan, numbers > 1.0).astype(np.float32)
    assert {"ranks", "spread"} == pictured(comparison, guessed).keys()
    once = comparison.model_copy(update={"clusters": (), "conditions": comparison.conditions[:1]})
    assert {"ranks"} == pictured(once, guessed[:, :15]).keys()


def test_too_few_independent_units_have_no_box_and_no_bar_that_joins_all() -> None:
    few = {image: name.replace("5", "1").replace("6", "2").replace("4", "0") for image, name in PHOTOGRAPHS.items()}
    assert pictured(*paired(clusters=few).stored()) == {}


def test_curves_on_log_axes_leave_out_what_is_zero() -> None:
    line = Series(label="e", x=(0.0, 0.01, 1.0), y=(0.0, 0.1, 1.0))
    chart = Chart(id="c", title="C", caption="", kind="curves", log=True, series=(line,), x_label="FPR", y_label="TPR")
    picture = next(chart_pictures(board(charts=(chart,)), chart))
    assert picture is not None
    assert picture.svg("dark").count(b"<svg") == 1
    assert picture.data == {"series": ["e"] * 3, "FPR": [0.0, 0.01, 1.0], "TPR": [0.0, 0.1, 1.0]}


def contest_pictures() -> tuple[dict[str, Picture], Board]:
    made = report()
    own = board(tables=tuple(made.tables), rankings=tuple(made.rankings), charts=())
    stored = [comparison.stored() for comparison in made.comparisons]
    scores = [Scores(own, comparison, numbers) for comparison, numbers in stored]
    found = ranking_pictures(own, own.rankings[0], scores)
    return {picture.name.rpartition("/")[2]: picture for picture in found}, own


def test_the_caption_of_the_worst_case_says_what_its_marks_are_in_the_words_of_their_columns() -> None:
    pictures, _ = contest_pictures()
    caption = pictures["contest-worst"].caption
    said = "mean over the attacks that were run both ways"
    assert f"Hollow circle: {said}, without knowledge of the defense. " in caption
    assert f"Cross: {said}, with knowledge of the defense. " in caption


def test_what_stands_below_a_narrow_chart_ends_within_the_picture(screen: Page) -> None:
    """Names of 70 letters leave the chart less width than the name of its measure takes."""
    made = report()
    long = {row.label: f"acme/{'long-' * 12}name[n={i}]" for i, row in enumerate(made.tables[0].rows)}
    rows = tuple(row.model_copy(update={"label": long[row.label]}) for row in made.tables[0].rows)
    table = made.tables[0].model_copy(update={"rows": rows})
    own = board(tables=(table,), rankings=tuple(made.rankings), charts=())
    picture = next(iter(ranking_pictures(own, own.rankings[0], ())))
    screen.set_content(picture.drawn("light").decode())
    ends = screen.evaluate(
        """() => { const right = document.querySelector('svg').getBoundingClientRect().right;
        return [...document.querySelectorAll('text')].map((e) => e.getBoundingClientRect().right - right); }"""
    )
    assert max(ends) <= 2


def test_the_pictures_of_a_ranking_hold_the_numbers_of_its_table() -> None:
    pictures, own = contest_pictures()
    worst = pictures["contest-worst"].data
    rows = {row.label: row.values for row in own.tables[0].rows}
    assert list(worst["defense"]) == list(rows)
    assert list(worst["worst"]) == [values["worst"].value for values in rows.values()]
    trade = pictures["contest-trade"].data
    front = {label for label, on in zip(trade["defense"], trade["front"], strict=True) if on}
    assert front == {label for label, place in own.rankings[0].places.items() if place.front}
    for picture in pictures.values():
        assert picture.drawn("light") == picture.drawn("light")
        lines = list(csv.reader(io.StringIO(csv_bytes(picture.data).decode())))
        assert len({len(line) for line in lines}) == 1


def test_a_heat_map_of_attacks_has_the_means_of_the_scores() -> None:
    pictures, _ = contest_pictures()
    heat, scores = pictures["contest-attacks"].data, blocks()
    assert set(heat) == {
        "",
        *(f"{name}, {attacker}" for name in ("I-FGSM", "Square") for attacker in ("does not know it", "knows it")),
    }
    chosen = scores.where(attack=ATTACKS[0], attacker="adaptive")
    wanted = np.mean([scores.values["d"][c][scores.entries.index(JPEG)].mean() for c in chosen])
    assert heat["I-FGSM, knows it"][list(heat[""]).index(brief(JPEG))] == pytest.approx(wanted, rel=1e-6)
    by_metric = pictures["contest-attacks-by-metric"].data
    chosen = scores.where(attack=ATTACKS[1], metric="harness/sharpness")
    wanted = np.mean([scores.values["d"][c][scores.entries.index(NONE)].mean() for c in chosen])
    assert by_metric["Sharpness"][list(by_metric[""]).index("Square")] == pytest.approx(wanted, rel=1e-6)
    assert len(heat[""]) == len(LEVELS)


def unnamed(svg: bytes) -> bytes:
    """A picture with its markers and clip paths numbered: their names are digests of their colours, too."""
    numbers: dict[bytes, bytes] = {}
    return re.sub(
        rb'(?<=[#"])[mpC][0-9a-f_]{10,}(?=[")])', lambda m: numbers.setdefault(m[0], b"%d" % len(numbers)), svg
    )


def test_the_dark_picture_is_the_light_one_in_the_colours_that_a_dark_drawing_has() -> None:
    comparison, numbers = paired().stored()
    compared = comparison_pictures(board(), Scores(board(), comparison, numbers))
    pictures = [*contest_pictures()[0].values(), *compared, scatter(CROWD)]
    assert len(pictures) >= 7
    for picture in pictures:
        light, dark = picture.drawn("light"), picture.drawn("dark")
        assert unnamed(light) != unnamed(dark)
        assert unnamed(darkened(light)) == unnamed(dark), picture.name


def test_names_lose_their_parameters_only_where_that_leaves_them_apart() -> None:
    assert short(["harness/a[n=1]", "harness/b[n=1]", "harness/b[n=2]"]) == ["A", "B (n 1)", "B (n 2)"]


def test_a_picture_of_the_same_numbers_is_drawn_once_and_one_of_others_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = list[str](), Picture.drawn
    monkeypatch.setattr(Picture, "drawn", lambda self, theme: drawn.append(theme) or draw(self, theme))
    monkeypatch.setattr("imharness_leaderboard.picture._DRAWN", {})
    first = scatter(RIDGE).svg("light")
    assert scatter(RIDGE).svg("light") == first == scatter(RIDGE).drawn("light")
    assert len(drawn) == 2  # the second when asked to
    assert scatter(RIDGE[1:]).svg("light") != first
    assert scatter(RIDGE).svg("dark") != first
    assert len(drawn) == 4


def test_few_pictures_are_kept_and_those_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[object, ...], bytes] = {}
    monkeypatch.setattr("imharness_leaderboard.picture._DRAWN", kept)
    monkeypatch.setattr("imharness_leaderboard.picture.KEPT", 2)
    monkeypatch.setattr(Picture, "drawn", lambda self, theme: self.source.encode())
    for i in (1, 2, 1, 3):
        scatter(RIDGE[i:]).svg("light")
    assert [key[2] for key in kept] == [scatter(RIDGE[i:]).source for i in (1, 3)]


class TestTitlesSayWhatIsSeen:
    """Each title is held to points whose order is known."""

    def test_the_front_is_named_with_at_most_four_entries(self) -> None:
        few = scatter([(1.0, 3.0), (2.0, 2.0), (0.5, 1.0)], label="harness/jpeg[quality={}]")
        assert few.title == "No entry beats JPEG (quality 0) and JPEG (quality 1) in both numbers"
        assert few.caption.startswith("C. ")
        many = scatter([(float(i), 9.0 - i) for i in range(6)], label="a/e{}")
        assert many.title == "No entry beats e0, e1, e2 and 3 more in both numbers"

    @pytest.mark.parametrize(
        ("y", "said"),
        [
            ((1, 2, 3, 4), "Higher x goes with higher y: Kendall’s tau-b 1.00, 4 defenses"),
            ((4, 3, 1, 2), "Higher x goes with lower y: Kendall’s tau-b -0.67, 4 defenses"),
            ((2, 4, 1, 3), "Higher x hardly goes with higher or lower y: Kendall’s tau-b 0.00, 4 defenses"),
            ((2, 2, 2, 2), "C"),
        ],
    )
    def test_points_without_a_front_say_whether_numbers_go_together(self, y: Sequence[int], said: str) -> None:
        points = [(float(i), float(v)) for i, v in enumerate(y)]
        chart = Chart(id="c", title="C", caption="", kind="scatter", table="t", x="x", y="y")
        assert next(chart_pictures(board(tables=(table(points),), charts=(chart,)), chart)).title == said

    @pytest.mark.parametrize(
        ("better", "said"),
        [
            ("higher", "2 has the highest x: 0.970; next 1, 0.900"),
            ("lower", "0 has the lowest x: 0.860; next 1, 0.900"),
            ("", "C"),
        ],
    )
    def test_dots_name_the_best_and_the_next(self, better: str, said: str) -> None:
        rows = tuple(Row(label=f"a/{i}", values={"x": Value(value=v)}) for i, v in enumerate((0.86, 0.9, 0.97)))
        column = X.model_copy(update={"better": better})
        own = Table(id="t", title="T", caption="", entry="metric", columns=(column,), rows=rows)
        chart = Chart(id="c", title="C", caption="", kind="dots", table="t", x="x")
        assert next(chart_pictures(board(tables=(own,), charts=(chart,)), chart)).title == said

    @pytest.mark.parametrize(
        ("second", "said"),
        [
            ((0.3, 0.9), "two has the highest TPR throughout"),
            ((0.0, 0.9), "C"),
            ((0.1, 0.5), "C"),
        ],
    )
    def test_a_line_is_said_to_be_the_highest_only_where_it_is(self, second: tuple[float, ...], said: str) -> None:
        lines = (Series(label="a/one", x=(0.0, 1.0), y=(0.1, 0.5)), Series(label="a/two", x=(0.0, 1.0), y=second))
        chart = Chart(id="c", title="C", caption="", kind="curves", series=lines, x_label="FPR", y_label="TPR")
        assert next(chart_pictures(board(charts=(chart,)), chart)).title == said

    def test_a_front_among_rows_that_lack_something_speaks_of_complete_entries(self) -> None:
        own = table([(1.0, 3.0), (2.0, 2.0), (9.0, 9.0)], label="a/e{}")
        coverage = ColumnSpec(key="coverage", label="coverage", description="")
        rows = tuple(
            row.model_copy(update={"values": {**row.values, "coverage": Value(value=50.0 if i == 2 else 100.0)}})
            for i, row in enumerate(own.rows)
        )
        own = own.model_copy(update={"rows": rows, "columns": (X, Y, coverage), "ranked_by": "rank"})
        chart = Chart(id="c", title="C", caption="", kind="scatter", table="t", x="x", y="y", front=True)
        found = next(chart_pictures(board(tables=(own,), charts=(chart,)), chart))
        assert found.title == "No complete entry beats e0 and e1 in both numbers"


def test_a_matrix_of_attacks_has_room_for_long_names() -> None:
    """With the height of its rows alone the axes of seven rows were squeezed to nothing, with a warning."""
    names = [f"APGD (steps 8), along SSIM-uniform7 within the ball of radius {n}, knows it" for n in range(6)]
    heat = Heat([f"Entry {i}" for i in range(6)], names, np.eye(6), measure="Agreement", better="higher", decimals=3)
    picture = Picture("a", "title", "caption", "source", partial(draw_heat, heat), (WIDTH, heat_high(heat)), {})
    assert picture.svg("light").startswith(b"<?xml")

"""What pictures show: labels beside points and on none, intervals without a false zero, and titles that are true."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from imharness.documents.charts import Chart, Series
from imharness.documents.naming import brief
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness_leaderboard.chart_pictures import chart_pictures
from imharness_leaderboard.names import short_names
from imharness_leaderboard.picture import Picture, darkened

from .conftest import sample_leaderboard

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
    return next(chart_pictures(sample_leaderboard(tables=(table(points, label),), charts=(chart,)), chart))


@pytest.fixture(scope="module")
def screen(browser: Browser) -> Iterator[Page]:
    """A page that shows one picture after the other."""
    new_page = browser.new_page(viewport={"width": 1000, "height": 900})
    yield new_page
    new_page.close()


def boxes(screen: Page, svg: bytes) -> dict[str, list[dict[str, float]]]:
    """Return the boxes on the screen of all labels of points, and of all markers."""
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
"""Nine points on the front, nearer to each other than their labels are long."""


@pytest.mark.parametrize("points", [CROWD, RIDGE, [*CROWD, *RIDGE]], ids=["crowd", "ridge", "both"])
def test_labels_lie_on_nothing_and_every_point_of_the_front_has_one(screen: Page, points) -> None:
    picture = scatter(points)
    drawn = boxes(screen, picture.svg("light"))
    labels = drawn["labels"]
    wanted = {brief(label) for label, on in zip(picture.data["label"], picture.data["front"], strict=True) if on}
    assert wanted
    assert wanted <= {label["text"] for label in labels}
    assert len(drawn["markers"]) == len(points)
    for i, label in enumerate(labels):
        assert all(apart(label, other) for other in labels[:i]), label
        assert all(apart(label, marker) for marker in drawn["markers"]), label


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
    """Return the numbers of the x axis."""
    axis = svg.decode().split('id="matplotlib.axis_1"')[1].split('id="matplotlib.axis_2"')[0]
    return [float(text.replace("−", "-")) for text in re.findall(r">([−\d.]+)</text>", axis)]


def test_dots_span_what_they_show_and_not_zero() -> None:
    rows = tuple(
        Row(label=f"a/{i}", values={"x": Value(value=v, low=v - 0.02, high=v + 0.02)})
        for i, v in enumerate((0.86, 0.9, 0.97))
    )
    table = Table(id="t", title="T", caption="", entry="metric", columns=(X,), rows=rows)
    chart = Chart(id="c", title="C", caption="", kind="dots", table="t", x="x")
    picture = next(chart_pictures(sample_leaderboard(tables=(table,), charts=(chart,)), chart))
    assert picture is not None
    svg = picture.svg("light")
    assert min(ticks(svg)) > 0.8
    assert picture.data == {
        "metric": ["a/0", "a/1", "a/2"],
        "x": [0.86, 0.9, 0.97],
        "low": [0.84, 0.88, 0.95],
        "high": [0.88, 0.92, 0.99],
    }


def test_curves_on_log_axes_leave_out_what_is_zero() -> None:
    line = Series(label="e", x=(0.0, 0.01, 1.0), y=(0.0, 0.1, 1.0))
    chart = Chart(id="c", title="C", caption="", kind="curves", log=True, series=(line,), x_label="FPR", y_label="TPR")
    picture = next(chart_pictures(sample_leaderboard(charts=(chart,)), chart))
    assert picture is not None
    assert picture.svg("dark").count(b"<svg") == 1
    assert picture.data == {"series": ["e"] * 3, "FPR": [0.0, 0.01, 1.0], "TPR": [0.0, 0.1, 1.0]}


def unnamed(svg: bytes) -> bytes:
    """Return a picture with its markers and clip paths numbered: their names are digests that depend on colours."""
    numbers: dict[bytes, bytes] = {}
    return re.sub(
        rb'(?<=[#"])[mpC][0-9a-f_]{10,}(?=[")])', lambda m: numbers.setdefault(m[0], b"%d" % len(numbers)), svg
    )


def test_the_dark_picture_is_the_light_one_in_the_colours_that_a_dark_drawing_has() -> None:
    line = Series(label="e", x=(0.1, 1.0), y=(0.1, 1.0))
    curves = Chart(id="c", title="C", caption="", kind="curves", log=True, series=(line,))
    for picture in (scatter(CROWD), next(chart_pictures(sample_leaderboard(charts=(curves,)), curves))):
        light, dark = picture.drawn("light"), picture.drawn("dark")
        assert unnamed(light) != unnamed(dark)
        assert unnamed(darkened(light)) == unnamed(dark), picture.name


def test_names_lose_their_parameters_only_where_that_leaves_them_apart() -> None:
    names = short_names(["harness/a[n=1]", "harness/b[n=1]", "harness/b[n=2]"])
    assert list(names.values()) == ["A", "B (n=1)", "B (n=2)"]


def test_a_picture_of_the_same_numbers_is_drawn_once_and_one_of_others_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = list[str](), Picture.drawn
    monkeypatch.setattr(Picture, "drawn", lambda self, theme: drawn.append(theme) or draw(self, theme))
    monkeypatch.setattr("imharness_leaderboard.picture._DRAWN", {})
    first = scatter(RIDGE).svg("light")
    assert scatter(RIDGE).svg("light") == first == scatter(RIDGE).drawn("light")
    assert len(drawn) == 2  # the first call of `svg`, and that of `drawn`
    assert scatter(RIDGE[1:]).svg("light") != first
    assert scatter(RIDGE).svg("dark") != first
    assert len(drawn) == 4


def test_few_pictures_are_kept_and_those_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cached: dict[tuple[object, ...], bytes] = {}
    monkeypatch.setattr("imharness_leaderboard.picture._DRAWN", cached)
    monkeypatch.setattr("imharness_leaderboard.picture.KEPT", 2)
    monkeypatch.setattr(Picture, "drawn", lambda self, theme: self.source.encode())
    for i in (1, 2, 1, 3):
        scatter(RIDGE[i:]).svg("light")
    assert [key[2] for key in cached] == [scatter(RIDGE[i:]).source for i in (1, 3)]


class TestTitlesSayWhatIsSeen:
    """Each title is compared with points whose order is known."""

    def test_the_front_is_named_with_at_most_four_entries(self) -> None:
        few = scatter([(1.0, 3.0), (2.0, 2.0), (0.5, 1.0)], label="harness/jpeg[quality={}]")
        assert few.title == "No entry beats JPEG (quality=0) and JPEG (quality=1) in both numbers"
        assert few.caption.startswith("C. ")
        many = scatter([(float(i), 9.0 - i) for i in range(6)], label="a/e{}")
        assert many.title == "No entry beats e0, e1, e2 and 3 more in both numbers"

    @pytest.mark.parametrize(
        ("y", "title"),
        [
            ((1, 2, 3, 4), "Higher x goes with higher y: Kendall’s tau-b 1.00, 4 defenses"),
            ((4, 3, 1, 2), "Higher x goes with lower y: Kendall’s tau-b -0.67, 4 defenses"),
            ((2, 4, 1, 3), "Higher x hardly goes with higher or lower y: Kendall’s tau-b 0.00, 4 defenses"),
            ((2, 2, 2, 2), "C"),
        ],
    )
    def test_points_without_a_front_say_whether_numbers_go_together(self, y: Sequence[int], title: str) -> None:
        points = [(float(i), float(v)) for i, v in enumerate(y)]
        chart = Chart(id="c", title="C", caption="", kind="scatter", table="t", x="x", y="y")
        assert next(chart_pictures(sample_leaderboard(tables=(table(points),), charts=(chart,)), chart)).title == title

    @pytest.mark.parametrize(
        ("better", "title"),
        [
            ("higher", "2 has the highest x: 0.970; next 1, 0.900"),
            ("lower", "0 has the lowest x: 0.860; next 1, 0.900"),
            ("", "C"),
        ],
    )
    def test_dots_name_the_best_and_the_next(self, better: str, title: str) -> None:
        rows = tuple(Row(label=f"a/{i}", values={"x": Value(value=v)}) for i, v in enumerate((0.86, 0.9, 0.97)))
        column = X.model_copy(update={"better": better})
        table = Table(id="t", title="T", caption="", entry="metric", columns=(column,), rows=rows)
        chart = Chart(id="c", title="C", caption="", kind="dots", table="t", x="x")
        assert next(chart_pictures(sample_leaderboard(tables=(table,), charts=(chart,)), chart)).title == title

    @pytest.mark.parametrize(
        ("second", "title"),
        [
            ((0.3, 0.9), "two has the highest TPR throughout"),
            ((0.0, 0.9), "C"),
            ((0.1, 0.5), "C"),
        ],
    )
    def test_a_line_is_said_to_be_the_highest_only_where_it_is(self, second: tuple[float, ...], title: str) -> None:
        lines = (Series(label="a/one", x=(0.0, 1.0), y=(0.1, 0.5)), Series(label="a/two", x=(0.0, 1.0), y=second))
        chart = Chart(id="c", title="C", caption="", kind="curves", series=lines, x_label="FPR", y_label="TPR")
        assert next(chart_pictures(sample_leaderboard(charts=(chart,)), chart)).title == title

    def test_a_front_among_rows_that_lack_something_speaks_of_complete_entries(self) -> None:
        rows_table = table([(1.0, 3.0), (2.0, 2.0), (9.0, 9.0)], label="a/e{}")
        coverage = ColumnSpec(key="coverage", label="coverage", description="")
        rows = tuple(
            row.model_copy(update={"values": {**row.values, "coverage": Value(value=50.0 if i == 2 else 100.0)}})
            for i, row in enumerate(rows_table.rows)
        )
        rows_table = rows_table.model_copy(update={"rows": rows, "columns": (X, Y, coverage), "ranked_by": "rank"})
        chart = Chart(id="c", title="C", caption="", kind="scatter", table="t", x="x", y="y", front=True)
        picture = next(chart_pictures(sample_leaderboard(tables=(rows_table,), charts=(chart,)), chart))
        assert picture.title == "No complete entry beats e0 and e1 in both numbers"

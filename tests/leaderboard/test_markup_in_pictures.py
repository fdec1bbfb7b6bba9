"""Texts of strangers in pictures: a dollar sign begins no formula, and a picture that fails spoils no other."""

import html
import re
from pathlib import Path

import matplotlib as mpl
import pytest

from imharness.documents.charts import Chart, Series
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.notebook.picture import dots
from imharness.ranking.tables import win_table
from imharness.results.store import Store
from imharness_leaderboard import chart_pictures
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.picture import Picture

from .conftest import paired, sample_leaderboard, save

MARKUP = ["$\\input{/etc/passwd}$", "$\\frac{1}$", "$", "$x^{$", "\\href{file:///etc/passwd}{x}", "x_1^2"]
"""Values that a parameter in a label may have."""


def label(markup: str) -> str:
    return f"acme/blur[name={markup}]"


def written(picture: bytes | str) -> set[str]:
    """Return the texts of a picture as they are shown."""
    text = picture if isinstance(picture, str) else picture.decode()
    return {html.unescape(text_content) for text_content in re.findall(r"<text[^>]*>([^<]*)</text>", text)}


@pytest.fixture
def marked() -> Leaderboard:
    """A leaderboard whose labels, columns and titles hold markup."""
    columns = tuple(
        ColumnSpec(key=key, label=f"{key} {MARKUP[0]}", description="A number.", better="higher") for key in "xy"
    )
    rows = tuple(
        Row(label=label(text), values={"x": Value(value=i + 1.0), "y": Value(value=1.0 + i * i)})
        for i, text in enumerate(MARKUP)
    )
    main = Table(id="main", title=MARKUP[0], caption="c", entry="defense", ranked_by="x", columns=columns, rows=rows)
    lines = tuple(Series(label=label(text), x=(1e-4, 0.1, 1.0), y=(1e-3, 0.5, 1.0)) for text in MARKUP)
    charts = (
        Chart(id="front", title=MARKUP[0], caption="c", kind="scatter", table="main", x="x", y="y", log=True),
        Chart(id="dots", title=MARKUP[1], caption="c", kind="dots", table="main", x="x"),
        Chart(id="roc", title=MARKUP[2], caption="c", kind="curves", log=True, series=lines, x_label=MARKUP[0]),
    )
    return sample_leaderboard(tables=(main, win_table(paired())), charts=charts)


@pytest.mark.parametrize("tex", [False, True], ids=["plain", "tex"])
def test_markup_is_drawn_as_it_stands(tex: bool, marked: Leaderboard, tmp_path: Path) -> None:
    """Also where a user has told matplotlib to run TeX, which would read files."""
    store = Store(tmp_path / "store")
    save(store, marked)
    with mpl.rc_context({"text.usetex": tex}):
        built = build_site(tmp_path / "store", tmp_path / "site")
    assert list(built.problems) == []
    texts = {path.name: written(path.read_bytes()) for path in (tmp_path / "site").rglob("*-light.svg")}
    for name in ("dots-light.svg", "roc-light.svg", "front-light.svg"):
        assert {label(text) for text in MARKUP} <= texts[name], name
    assert f"x {MARKUP[0]} (higher is better)" in texts["dots-light.svg"]
    assert {"0.001", "0.01", "0.1", "1"} <= texts["roc-light.svg"]


def test_the_picture_of_a_table_takes_markup_as_it_stands(marked: Leaderboard) -> None:
    with mpl.rc_context({"text.usetex": True}):
        drawn = dots(marked.tables[0]).svg
    assert {label(text) for text in MARKUP} | {MARKUP[0]} <= written(drawn)


def test_a_picture_that_cannot_be_drawn_is_the_only_one_that_lacks(
    marked: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Picture.svg

    def svg(picture: Picture, theme: str) -> bytes:
        if picture.name.endswith("/dots"):
            raise RuntimeError("no ink")
        return original(picture, theme)

    monkeypatch.setattr(Picture, "svg", svg)
    store = Store(tmp_path / "store")
    save(store, marked)
    built = build_site(tmp_path / "store", tmp_path / "site")
    assert list(built.problems) == ["acme/evil: a picture cannot be drawn: no ink"]
    names = {path.name for path in (tmp_path / "site").rglob("*.svg")}
    assert {"front-light.svg", "front-dark.svg", "roc-light.svg"} <= names
    assert not names & {"dots-light.svg", "dots-dark.svg"}
    assert "dots-light.svg" not in "".join(path.read_text() for path in (tmp_path / "site").rglob("*.html"))


def test_a_leaderboard_whose_pictures_cannot_be_planned_has_pages(
    marked: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(leaderboard: Leaderboard, chart: Chart) -> None:
        raise ValueError("no plan")

    monkeypatch.setattr(chart_pictures, "chart_pictures", broken)
    store = Store(tmp_path / "store")
    save(store, marked)
    built = build_site(tmp_path / "store", tmp_path / "site")
    assert list(built.problems) == ["acme/evil: a picture cannot be drawn: no plan"] * 3
    assert (tmp_path / "site" / "index.html").is_file()

"""The drawings that readers download: those of the page, with all that they need to be read alone."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page

from imharness.documents.stored import write_leaderboard
from imharness.results.store import Store
from imharness_leaderboard.drawing import width_of
from imharness_leaderboard.drawing_files import cut, drawings_of, style, wrapped
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.rankings import RankingView

from .browsing import settled
from .conftest import EVIL, sample_leaderboard
from .contested import PROXIES, report

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("worst", "trade", "attacks")


@pytest.fixture(scope="module")
def files(built: Path) -> dict[str, str]:
    return {kind: (built / f"pictures/contest/contest-{kind}.svg").read_text() for kind in KINDS}


def drawn(text: str, kind: str) -> list[str]:
    return re.findall(rf'<svg class="{kind}".*?</svg>', text, re.S)


def test_a_file_has_the_shapes_of_the_page(built: Path, files: dict[str, str]) -> None:
    page = (built / "contest.html").read_text()
    assert drawn(files["trade"], "front") == drawn(page, "front")
    lanes = drawn(files["worst"], "lane")
    assert lanes == drawn(page, "lane")
    assert len(lanes) == len(report().tables[0].rows)
    cells = re.findall(r'<td class="h(\d+)">([^<]*)</td>', page)
    steps = re.findall(r'fill-opacity="([\d.]+)".*?text-anchor="middle">([^<]*)<', files["attacks"])
    assert [(f"{int(step) * 0.05:.2f}", text) for step, text in cells] == [(f"{float(o):.2f}", t) for o, t in steps]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_stands_alone(files: dict[str, str], kind: str) -> None:
    root = ElementTree.fromstring(files[kind])
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    heading = " ".join(
        "".join(element.itertext()) for element in root.iter(f"{SVG}text") if element.get("class") == "heading"
    )
    assert heading == root.findtext(f"{SVG}title")
    assert "Source: Contest track, profile p, 2026-01-02." in texts
    assert f"Stand-in data, do not cite: {PROXIES[0]}." in texts
    assert not re.search(r"var\(|url\((?!#)|@import|href=\"(?!#)|<script", files[kind])
    assert not {element.tag for element in root.iter()} & {f"{SVG}image", f"{SVG}script", f"{SVG}foreignObject"}


def test_the_style_of_a_file_is_that_of_the_light_theme() -> None:
    stylesheet = style()
    assert "var(" not in stylesheet
    assert ".lane .dot, .key-lane .dot { fill: #0b5c8a; }" in stylesheet
    assert ".sheet .paper { fill: #ffffff; }" in stylesheet


def test_every_drawing_of_a_track_is_offered_with_its_numbers(page: Page, built: Path) -> None:
    settled(page, "contest.html")
    original = report()
    leaderboard = sample_leaderboard(
        tables=tuple(original.tables), rankings=tuple(original.rankings), track="harness/contest"
    )
    offered = page.locator("a[download]").evaluate_all("(links) => links.map((link) => link.getAttribute('href'))")
    view = RankingView(leaderboard, original.rankings[0], original.tables[0], None, (), "")
    for svg, numbers in [*drawings_of(view).values(), ("pictures/contest/contest-attacks.svg",) * 2]:
        assert {svg, numbers} <= set(offered)
        assert (built / svg).is_file()
        assert (built / numbers).is_file()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="SVG of protection against utility").click()
    assert Path(waiting.value.path()).read_text() == (built / "pictures/contest/contest-trade.svg").read_text()
    rows = list(csv.DictReader((built / "data/contest/contest.csv").read_text().splitlines()))
    assert [row["defense"] for row in rows] == [row.label for row in original.tables[0].rows]


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawings whose entries have names of 70 letters and short numbers, and markup in titles."""
    folder, original = tmp_path_factory.mktemp("long"), report()
    names = {row.label: f"acme/{'long-' * 12}name[n={i}]" for i, row in enumerate(original.tables[0].rows)}
    rows = tuple(row.model_copy(update={"label": names[row.label]}) for row in original.tables[0].rows)
    columns = tuple(column.model_copy(update={"decimals": 0}) for column in original.tables[0].columns)
    table = original.tables[0].model_copy(update={"rows": rows, "columns": columns, "title": EVIL})
    places = {names[label]: position for label, position in original.rankings[0].places.items()}
    changes = {"places": places, "claim": f"{EVIL} {'wins ' * 80}", "winner": "", "findings": ()}
    ranking = original.rankings[0].model_copy(update=changes)
    store = Store(folder / "store")
    write_leaderboard(
        store, sample_leaderboard(tables=(table,), rankings=(ranking,), comparisons=(), charts=(), title=EVIL), {}
    )
    build_site(folder / "store", folder / "site")
    return folder / "site" / "pictures"


@pytest.fixture(scope="module")
def screen(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def test_nothing_runs_off_a_file_or_into_its_neighbour(screen: Page, built: Path, long_names: Path) -> None:
    every = [*(built / "pictures/contest").glob("contest-*.svg"), *long_names.rglob("*.svg")]
    assert len(every) == 5
    for file in every:
        screen.goto(file.as_uri())
        width, height, boxes = screen.evaluate(
            """() => { const svg = document.documentElement, box = (e) => { const b = e.getBoundingClientRect();
                return [b.left, b.top, b.right, b.bottom]; };
              const texts = [...svg.querySelectorAll('text')].filter((e) => e.textContent);
              return [svg.width.baseVal.value, svg.height.baseVal.value, texts.map(box)]; }"""
        )
        assert all(min(box_edges) >= 0 and box_edges[2] <= width and box_edges[3] <= height for box_edges in boxes), (
            file
        )
        for i, (left_edge, top, right, bottom) in enumerate(boxes):
            for other in boxes[:i]:
                beside = left_edge > other[2] - 1 or other[0] > right - 1
                assert beside or top > other[3] - 4 or other[1] > bottom - 4, file
        assert screen.evaluate("document.querySelectorAll('script').length") == 0


@pytest.mark.parametrize("width", [60.0, 200.0, 500.0])
def test_lines_and_names_fit(width: float) -> None:
    text = "Against attackers who know the defense, JPEG holds D at 9.91% of the range"
    lines = wrapped(text, width)
    assert " ".join(lines) == text
    assert all(width_of(line) <= width or " " not in line for line in lines)
    assert width_of(cut(text, width)) <= width
    assert cut("JPEG", width) == "JPEG"

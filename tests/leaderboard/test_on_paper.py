"""Pages on paper and on phones: printed pages cut nothing, LaTeX fits a paper, and names break between their pieces."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.ranking.tables import win_table
from imharness.results.store import Store
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.tables import breadth, with_order
from imharness_leaderboard.wording import breaking

from .browsing import SIZES, settled
from .conftest import EVIL, sample_leaderboard, save
from .contested import JPEG, LEVELS, report

LABELS = [f"harness/a-defense-of-usual-length[strength={i},mode=fast]" for i in range(30)]


def wide(columns: int) -> Table:
    """Return a table of 30 rows and so many columns; with 30 columns it is a matrix of the rows."""
    specs = tuple(
        ColumnSpec(key=f"c{j}", label=LABELS[j] if columns == 30 else f"SROCC, measure {j}", description="A number.")
        for j in range(columns)
    )
    values = {column.key: Value(value=0.123, low=0.1, high=0.2, n=36) for column in specs}
    rows = tuple(Row(label=label, values=values) for label in LABELS)
    return Table(
        id=f"wide-{columns}",
        title=f"Wide {columns}",
        caption="",
        entry="defense",
        columns=specs,
        rows=rows,
        shading=1.0 if columns == 30 else None,
    )


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    save(Store(folder / "store"), sample_leaderboard(tables=(wide(8), wide(16), wide(22), wide(30)), charts=()))
    build_site(folder / "store", folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def paper(browser: Browser, printed: Path) -> Iterator[Page]:
    opened = browser.new_page(color_scheme="dark")
    yield opened
    opened.close()


A4 = {"narrow-print": (703, 595), "broad-print": (1047, 842), "vast-print": (1047, 842)}
"""Form -> the width between the margins, px, and the width of the sheet, pt."""


@pytest.mark.parametrize(
    ("columns", "form"), [(8, "narrow-print"), (16, "broad-print"), (22, "vast-print"), (30, "vast-print")]
)
def test_a_printed_sheet_holds_every_column(paper: Page, printed: Path, columns: int, form: str) -> None:
    between, sheet = A4[form]
    assert breadth(wide(columns)) == form
    assert (breadth(wide(columns + 1)) != form) == (columns <= 16), "what is printed has the most columns of its form"
    paper.set_viewport_size({"width": between, "height": 1000})
    paper.emulate_media(media="print", color_scheme="dark")
    paper.goto(f"file://{printed}/acme--evil/wide-{columns}.html")
    right = paper.evaluate(
        "Math.max(...[...document.querySelectorAll('main table *')].map((e) => e.getBoundingClientRect().right))"
    )
    assert right <= between + 1
    assert paper.evaluate("getComputedStyle(document.querySelector('th[scope=row]')).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper.pdf(prefer_css_page_size=True))
    assert {round(float(width)) for width, _ in boxes} <= {sheet, sheet + 1, sheet - 1}


def copied(page: Page, name: str) -> str:
    settled(page, name)
    page.locator("summary", has_text="Copy").first.click()
    page.get_by_role("button", name="LaTeX", exact=True).first.click()
    page.get_by_role("button", name="LaTeX copied").wait_for()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_latex_has_eight_columns_intervals_and_a_caption(page: Page) -> None:
    text = copied(page, "contest/contest.html")
    for word in (
        r"\begin{table}",
        r"\caption{Defenses by the worst attack. Of each image the worst attack counts. "
        r"In brackets: 95\% intervals.}",
        r"\label{tab:contest}",
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
        r"\begin{tabular}{lrrrrrrr}",
    ):
        assert word in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {7}
    value = next(row for row in report().tables[0].rows if row.label == JPEG).values["worst"]
    line = next(row for row in rows if row.startswith("JPEG"))
    assert f"{value.value:.2f} {{\\scriptsize [{value.low:.2f}, {value.high:.2f}]}}" in line
    assert text.count("{") == text.count("}")


def test_latex_of_a_broad_table_says_what_it_left_out(page: Page) -> None:
    text = copied(page, "acme--evil/main.html")
    assert "left out" not in text
    assert "<script>" not in text
    assert r"\textless{}script\textgreater{}" in text


def test_names_break_between_their_parts_only() -> None:
    assert str(breaking("acme/a-b[c=1,d=2]")) == "acme/<wbr>a-b<wbr>[c=<wbr>1,<wbr>d=<wbr>2]"
    assert str(breaking("harness/a-b[c=1,d=2]")) == "A b (c=<wbr>1,<wbr> d=<wbr>2)"
    assert "<script>" not in breaking(EVIL)


def test_no_word_of_a_name_is_broken_on_a_phone(page: Page) -> None:
    page.set_viewport_size(SIZES["phone"])
    settled(page, "contest/contest.html")
    broken = page.evaluate(
        """() => { const found = [];
          for (const head of document.querySelectorAll('table[data-table] tbody th[scope=row] a')) {
            const walker = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode());) {
              for (const { 0: word, index } of node.data.matchAll(/[A-Za-z0-9]+/g)) {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + word.length);
                if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.push(word);
              }
            }
          }
          return found; }"""
    )
    assert broken == []


def test_the_first_row_of_a_table_is_on_the_first_screen_of_a_phone(page: Page) -> None:
    page.set_viewport_size(SIZES["phone"])
    settled(page, "contest/contest.html")
    row = page.locator("table[data-table] tbody tr").first.bounding_box()
    assert row is not None
    assert row["y"] + row["height"] < SIZES["phone"]["height"]


def test_matrices_stand_in_the_order_of_the_ranking() -> None:
    original = report()
    order = [row.label for row in original.tables[0].rows]
    assert order != sorted(order)
    wins = win_table(original.comparisons[0])
    assert [row.label for row in wins.rows] == sorted(LEVELS)
    before = {(row.label, column.label): row.values[column.key] for row in wins.rows for column in wins.columns}
    leaderboard: Leaderboard = sample_leaderboard(
        tables=(*original.tables, wins), rankings=tuple(original.rankings), charts=()
    )
    ordered = with_order(leaderboard).tables[1]
    assert [row.label for row in ordered.rows] == order
    assert [column.label for column in ordered.columns] == order
    assert before == {
        (row.label, column.label): row.values[column.key] for row in ordered.rows for column in ordered.columns
    }
    assert with_order(leaderboard).tables[0] == leaderboard.tables[0]

"""The transcribed tables of the four papers equal the texts of the papers, and errors in such files are located."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.conftest import SHARED

from imharness.errors import PluginError, UsageError
from imharness.papers.comparison import compare
from imharness.papers.published import PublishedTable, find_table, published_tables, tables_in

TEXTS = {
    "gushchin2025": "guardians-of-image-quality.txt",
    "song2021": "systematic-evaluation-of-privacy-risks.txt",
    "sun2023": "semsim-privacy-assessment.txt",
    "zhang2018": "lpips-deep-features.txt",
}
PUBLISHED = {"gushchin2025": 21, "song2021": 7, "sun2023": 3, "zhang2018": 5}
"""How many tables each paper has."""
LINES = {"gushchin2025", "sun2023"}
"""Papers in whose text each row of a table is one line."""
APART = {"iqa/4", "iqa/6", "perceptual/1", "perceptual/3"}
"""Tables whose cells stand with units, or apart from each other, in the text."""
TABLES = [table for table in published_tables() if table.rows]


@pytest.fixture(scope="module")
def text_of(request: pytest.FixtureRequest):
    """Return a paper's text by its key; skip where the texts are not on this machine."""
    folder = Path(os.environ.get("HARNESS_TEST_DATA", SHARED)).parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"the papers' texts are not at {folder}")
    return lambda paper: (folder / TEXTS[paper]).read_text(encoding="utf-8")


def address(table: PublishedTable) -> str:
    return table.address


def squeezed(line: str) -> str:
    """Return a line without blanks and signs between numbers."""
    return re.sub(r"\| *- *(?=\|)|[\s|/±—%]", "", line)


def numbers(text: str) -> list[str]:
    """Return the numbers of a text, as they are written."""
    return re.findall(r"(?<![\d.])-?(?:\d+\.?\d*|\.\d+)", text.replace("%", " "))


def runs_through(wanted: list[str], sequence: list[str]) -> bool:
    """Say whether the wanted numbers follow each other in a sequence."""
    return any(sequence[i : i + len(wanted)] == wanted for i in range(len(sequence) - len(wanted) + 1))


def printed(table: PublishedTable) -> list[list[str]]:
    """Return the numbers of each row as text; a mean is followed by its spread."""
    return [[n for v in row.values if v.text != "-" for n in v.text.split("±")] for row in table.rows]


def test_every_table_of_the_four_papers_is_there_or_listed_with_its_reason():
    tables_by_paper = {
        paper: {t.table for t in published_tables() if t.paper == paper and t.table.isdigit()} for paper in PUBLISHED
    }
    assert tables_by_paper == {paper: {str(i + 1) for i in range(n)} for paper, n in PUBLISHED.items()}
    left_out = {t.address for t in published_tables() if t.left_out}
    assert left_out == {
        *("iqa/1", "iqa/7", "iqa/8", "perceptual/2", "perceptual/figure-6", "reconstruction/3"),
        *(f"iqa/figure-{number}" for number in (2, 3, 4, 5, 6, 8, 10, 11)),
        *(f"perceptual/figure-{number}" for number in (4, 5, 12)),
        *(f"membership/figure-{number}" for number in (1, 2, 4, 7, 9)),
    }
    assert sum(len(row) for table in TABLES for row in printed(table)) > 3500


@pytest.mark.parametrize("table", [t for t in TABLES if t.paper in LINES and t.address not in APART], ids=address)
def test_rows_are_those_of_the_text(table, text_of):
    lines = [squeezed(line) for line in text_of(table.paper).splitlines()]
    for row, cells in zip(table.rows, printed(table), strict=True):
        assert any("".join(cells) in line for line in lines), row.label


SONG = [t for t in TABLES if t.paper == "song2021"]


@pytest.mark.parametrize("table", [t for t in SONG if t.table.isdigit()], ids=address)
def test_cells_follow_each_other_in_the_text(table, text_of):
    text_numbers = numbers(text_of("song2021").replace("N.A.", ""))
    apart = 2 if table.address == "membership/7" else 0  # the text of appendix A has the accuracies of the models
    for row, cells in zip(table.rows, printed(table), strict=True):
        assert runs_through(cells[:apart], text_numbers), row.label
        assert runs_through(cells[apart:], text_numbers), row.label


@pytest.mark.parametrize("table", [t for t in SONG if not t.table.isdigit()], ids=address)
def test_columns_of_figures_follow_each_other_in_the_text(table, text_of):
    text_numbers = numbers(text_of("song2021"))
    for column, cells in zip(table.columns, zip(*printed(table), strict=True), strict=True):
        cells = [
            n for n in cells if not (table.table == "figure 10" and n == "0.1")
        ]  # the prior .5 has a sentence of its own
        assert runs_through(cells, text_numbers), column.label


def test_lpips_columns_follow_each_other_in_the_text_and_have_the_printed_means(text_of):
    table, text_numbers = find_table("perceptual/5"), numbers(text_of("zhang2018"))
    rows = printed(table)
    pairs = {1: 2, 6: 7}  # the text has the last column of a group of families beside the mean of the group
    for j in (0, 3, 4, 5, 8):
        for first, last in ((1, 5), (7, 11), (11, 14)):
            assert runs_through([row[j] for row in rows[first:last]], text_numbers), table.columns[j].label
    for j, k in pairs.items():
        assert all(runs_through([row[j], row[k]], text_numbers) for row in rows)
    values = [[v.value for v in row.values] for row in table.rows]
    for row in values:
        assert row[2] == pytest.approx(sum(row[:2]) / 2, abs=0.101)
        assert row[7] == pytest.approx(sum(row[3:7]) / 4, abs=0.101)
        assert row[8] == pytest.approx((sum(row[:2]) + sum(row[3:7])) / 6, abs=0.101)


@pytest.mark.parametrize("name", [*sorted(APART), "perceptual/4"])
def test_numbers_of_scattered_tables_stand_in_the_text(name, text_of):
    table = find_table(name)
    text = text_of(table.paper).replace(",", "")
    number_counts = Counter(numbers(text)) + Counter(
        f"{float(n) * 1000:.0f}" for n in re.findall(r"(\d*\.?\d+)k\b", text)
    )
    number_counts.update(["1900", "4700", "9400"])  # printed without their k
    number_counts.update(str(float(n)) for n in re.findall(r"(\d+\.\d+)M\b", text))
    missing = [
        n for cells in printed(table) for n in cells if n not in number_counts and f"{float(n):g}" not in number_counts
    ]
    assert not missing


def test_shares_of_same_are_those_of_pairs_and_sentinels_together():
    whole, sentinels, pairs = (row.values[0].value for row in find_table("perceptual/section-2.2").rows[:3])
    assert whole == round((160 * pairs + 40 * sentinels) / 200, 1)


def test_win_rates_have_an_empty_diagonal_and_no_pair_beats_each_other_always():
    for name in ("iqa/10", "iqa/15", "iqa/16", "iqa/17"):
        table = find_table(name)
        grid = [[v.value for v in row.values] for row in table.rows]
        for i, row in enumerate(grid):
            assert [j for j, value in enumerate(row) if value is None] == [i]
            assert all(value + grid[j][i] <= 100 for j, value in enumerate(row) if value is not None)


def test_the_fastest_certified_defense_is_four_times_slower_than_the_slowest_purification():
    """The section on inference complexity of Guardians of Image Quality; times in ms, of one entry each."""
    slowest = max(row.values[0].value or 0 for row in find_table("iqa/2").rows)
    certified = find_table("iqa/3-certified")
    (column,) = (i for i, c in enumerate(certified.columns) if "ms" in (c.key, c.label))
    fastest = min(row.values[column].value for row in certified.rows)
    assert round(fastest / slowest) == 4


def test_the_times_of_densepure_leave_fewer_passes_than_two_runs_of_two_steps():
    """(DP - RS) / (DDRS - RS): the time that DensePure adds to smoothing, in passes of the denoiser; DDRS makes one."""
    passes = []
    for name, key in (("iqa/3-certified", "ms"), ("iqa/21", "seconds")):
        table = find_table(name)
        (column,) = (i for i, c in enumerate(table.columns) if c.key == key)
        time = {row.label: row.values[column].value or 0.0 for row in table.rows}
        passes.append((time["DP"] - time["RS"]) / (time["DDRS"] - time["RS"]))
    assert passes == pytest.approx([2.47, 2.27], abs=0.005)


def test_shares_of_wins_are_multiples_of_the_conditions_that_the_notes_name():
    """A share of wins over n conditions is a multiple of 100 / n %; it is printed with two digits after the point."""
    for name, conditions in (("iqa/10", 351), ("iqa/15", 351), ("iqa/16", 48), ("iqa/17", 48)):
        for row in find_table(name).rows:
            for share in (v.value for v in row.values if v.value is not None):
                assert abs(round(share * conditions / 100) * 100 / conditions - share) < 0.0051, (name, row.label)


def test_finding_a_table_that_is_not_there_names_the_nearest():
    with pytest.raises(UsageError, match=r"no published table is called 'iqa/22'. Did you mean 'iqa/2'"):
        find_table("iqa/22")


def test_reading_the_tables_loads_neither_torch_nor_a_plugin():
    code = (
        "import sys; from imharness.papers.published import published_tables; published_tables();"
        "sys.exit('torch' in sys.modules or any(m.startswith('imharness_iqa') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GOOD = """
paper = "a2020"
table = "1"
track = "acme/track"
title = "t"
columns = [{ key = "d", label = "D", ours = "main:d" }]
rows = [{ label = "blur", ours = "acme/blur", values = "1.5" }]
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that makes a package with one table and reads it."""
    monkeypatch.syspath_prepend(tmp_path)

    def read(
        text: str,
        papers: str = '[a2020]\ntitle = "A"\n',
        name: str = f"pub_{tmp_path.name.replace('-', '_')}",
        otherwise: str = "",
    ):
        root = tmp_path / name
        (root / "papers").mkdir(parents=True, exist_ok=True)
        (root / "__init__.py").write_text("raise ImportError('a package is not imported for its tables')")
        (root / "papers.toml").write_text(papers)
        (root / "papers" / "table-1.toml").write_text(text)
        (root / "otherwise.toml").write_text(otherwise)
        tables_in.cache_clear()
        return tables_in(name)

    return read


def test_a_table_is_read_without_importing_its_package(package):
    (table,) = package(GOOD)
    assert table.address == "acme/track/1"
    assert (table.rows[0].values[0].value, table.rows[0].values[0].half_digit) == (1.5, 0.05)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('values = "1.5"', 'values = "1.5 2"', r"row 'blur' has 2 values for 1 columns"),
        ('values = "1.5"', 'values = "1,5"', r"rows\[0\] 'blur': values: '1,5' is neither a number nor '-'"),
        ('values = "1.5"', "values = [1.5]", r"rows\[0\] 'blur': values: values must be one text"),
        ('ours = "main:d"', 'ours = "d"', r"column 'd' points to 'd', which is not table:column"),
        ('label = "D"', 'label = "D", colour = "red"', r"columns\[0\] 'D': colour: Extra inputs"),
        ('table = "1"', 'table = "one"', r"table: String should match pattern"),
        ('title = "t"', 'title = "t"\nleft_out = "why"', r"either rows or a reason in left_out"),
        ('paper = "a2020"', 'paper = "b2021"', r"cites paper='b2021', which is not in pub_.*/papers.toml"),
        ("rows = [", 'rows = [{ label = "blur", values = "2" }, ', r"row 'blur' occurs twice"),
        ('title = "t"', "title = ", r"cannot be read"),
    ],
)
def test_a_file_that_is_wrong_says_where(package, old, new, message):
    with pytest.raises(PluginError, match=r"^pub_\w+/papers/table-1.toml") as caught:
        package(GOOD.replace(old, new))
    assert re.search(message, str(caught.value))


def test_what_the_authors_code_computes_otherwise_comes_with_the_table_of_its_paper(package):
    (table,) = package(GOOD, otherwise='[a2020]\n"acme/blur" = "f.py sharpens."\n')
    assert table.otherwise == {"acme/blur": "f.py sharpens."}


@pytest.mark.parametrize(
    ("otherwise", "message"),
    [
        ('[b2021]\n"acme/blur" = "f.py"\n', r"names 'b2021', which is not in pub_.*/papers.toml"),
        ('[a2020]\n"acme/blur" = ""\n', r"a2020: acme/blur: String should have at least 1 character"),
        ("[a2020", r"cannot be read"),
    ],
)
def test_a_file_of_what_is_computed_otherwise_that_is_wrong_says_where(package, otherwise, message):
    with pytest.raises(PluginError, match=rf"^pub_\w+/otherwise.toml.*{message}"):
        package(GOOD, otherwise=otherwise)


def test_each_sentence_on_the_authors_code_is_shown_with_a_table_and_names_a_file():
    printed_lines = "\n".join(line for table in TABLES for line in compare(table, None).otherwise)
    for table in TABLES:
        lines = [line.otherwise for line in (*table.rows, *table.columns) if line.otherwise]
        for sentence in (*table.otherwise.values(), *lines):
            assert sentence in printed_lines
            assert re.search(r"[\w/-]+\.(py|json)\b", sentence)
    assert {table.paper for table in TABLES if compare(table, None).otherwise} == set(PUBLISHED)

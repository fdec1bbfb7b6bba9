"""Tables for papers and spreadsheets: what they contain, what they mark, and that texts in them are escaped."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.core.exports.leaderboards import EVIL, evil, sample_leaderboard
from tests.leaderboard.contested import FLIP, JPEG, NOISE, NONE, PURIFIER

from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.errors import UsageError
from imharness.exports import csv_of, json_of, latex, markdown, parquet_of, sheet_of, typst
from imharness.exports.layout import COLUMNS, ROWS, parts_of, wrapped
from imharness.exports.markup import latex_text, markdown_text, typst_text
from imharness.exports.sheets import Sheet, chosen_tables
from imharness.reading.text import plain

SPECIAL = re.compile(r"(?<!\\)[%#$_&~^]")
"""Signs on which LaTeX acts, where no backslash is before them."""


def contest(**how: object) -> Sheet:
    """Return the sheet of the ranked table of `sample_leaderboard`."""
    leaderboard = sample_leaderboard()
    return sheet_of(leaderboard.tables[0], leaderboard, **how)


def evil_sheet() -> Sheet:
    leaderboard = evil()
    return sheet_of(leaderboard.tables[0], leaderboard)


def test_winner_controls_incomplete_and_flagged_entries_are_marked() -> None:
    sheet = contest()
    texts, lines = dict(sheet.notes), {line.label: line for line in sheet.lines}
    line_notes = {label: " ".join(texts[letter] for letter in line.notes) for label, line in lines.items()}
    assert [label for label, line in lines.items() if line.won] == [JPEG]
    assert "Control (undefended)" in line_notes[NONE]
    assert "Incomplete" in line_notes[PURIFIER]
    assert "more steps lowered the attack's success" in line_notes[NOISE]
    assert "utility" not in line_notes[JPEG]
    worst = {label: line.cells[[c.key for c in sheet.columns].index("worst")] for label, line in lines.items()}
    assert all(cell.low and cell.high for cell in worst.values())
    assert not worst[NONE].best
    assert not worst[PURIFIER].best
    assert sum(cell.best for cell in worst.values()) == 1


def test_columns_come_as_asked_by_key_or_label_and_a_wrong_one_names_the_others() -> None:
    sheet = contest(columns=["utility", "rank,worst"], caption="Mine.")
    assert [column.key for column in sheet.columns] == ["utility", "rank", "worst"]
    assert sheet.caption == "Mine."
    assert [c.key for c in contest(columns=[sheet.columns[2].label]).columns] == ["worst"]
    with pytest.raises(UsageError, match=r"'wrost'\. Did you mean 'worst'\? It has: rank"):
        contest(columns=["wrost"])
    with pytest.raises(UsageError, match=r"no table is called 'contst'\. Did you mean 'contest'"):
        chosen_tables([sample_leaderboard()], ["contst"])


def test_what_a_run_left_open_is_said_below_the_table_and_nothing_is_marked_before_its_end() -> None:
    leaderboard = sample_leaderboard(waiting=5, tasks_failed=2, tasks_missing=1, stale="scored by x 1")
    sheet = sheet_of(leaderboard.tables[0], leaderboard)
    remarks = " ".join(sheet.remarks)
    for fragment in ("7 of 12 tasks", "2 tasks failed", "1 part of the run", "Outdated: scored by x 1."):
        assert fragment in remarks
    assert not any(line.won or cell.best or cell.tied for line in sheet.lines for cell in line.cells)


def test_rows_of_one_name_are_separated_by_their_facets() -> None:
    sheet = evil_sheet()
    assert sheet.facets == (EVIL,)
    assert contest().facets == ()


def test_a_zero_has_no_sign() -> None:
    column = ColumnSpec(key="x", label="x", description="", decimals=2)
    assert [column.text(v) for v in (-0.001, -0.01, 0.0, 2.0)] == ["0.00", "-0.01", "0.00", "2.00"]


def test_no_p_above_0_is_printed_as_0() -> None:
    column = ColumnSpec(key="p", label="p", description="", better="lower", decimals=4)
    assert [column.text(p) for p in (4e-7, 0.0001, 1.0, 0.0)] == ["<0.0001", "0.0001", "1.0000", "0.0000"]
    assert column.model_copy(update={"key": "d"}).text(4e-7) == "0.0000"
    rows = tuple(Row(label=f"x/{i}", values={"p": Value(value=p)}) for i, p in enumerate((4e-7, 0.2)))
    table = Table(id="t", title="T", caption="", entry="entry", columns=(column,), rows=rows, ranked_by="p")
    sheet = sheet_of(table)
    assert r"\textbf{$<$0.0001}" in latex(sheet)
    assert "| **<0.0001** |" in markdown(sheet)
    assert 'strong("<0.0001")' in typst(sheet)


@pytest.mark.parametrize("make", [contest, evil_sheet])
def test_latex_has_whole_rows_and_balanced_parts(make) -> None:
    sheet = make()
    text, pieces = latex(sheet), parts_of(sheet)
    bodies = [body_text.partition("\\bottomrule")[0].splitlines() for body_text in text.split("\\midrule\n")[1:]]
    assert len(bodies) == len(pieces)
    for body, piece in zip(bodies, pieces, strict=True):
        assert len(body) == len(piece.sheet.lines)
        for row in body:
            assert len(re.findall(r"(?<!\\)&", row)) == len(sheet.facets) + len(piece.sheet.columns)
            assert row.endswith(r" \\")
            assert row[0] not in "[*"
    opened, closed = (re.findall(rf"^\\{word}{{(\w+)}}", text, re.M) for word in ("begin", "end"))
    assert set(opened) == {"table", "adjustbox", "tabular", "minipage", *(["itemize"] if sheet.findings else [])}
    assert sorted(closed) == sorted(opened)
    assert text.count("\\toprule") == text.count("\\midrule") == text.count("\\bottomrule") == len(pieces)
    assert "\\input" not in text
    bare = re.sub(r"\\\\|\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")


def wide(columns: int, rows: int, name: str = "acme/entry", decimals: int = 3) -> Sheet:
    """Return a sheet with so many columns and rows of numbers with intervals."""
    specs = tuple(
        ColumnSpec(key=f"k{i}", label=f"a measure, {i}", description="", better="lower", decimals=decimals)
        for i in range(columns)
    )
    lines = tuple(
        Row(label=f"{name}-{j}", values={spec.key: Value(value=10.0 + j, low=9.0, high=12.0, n=30) for spec in specs})
        for j in range(rows)
    )
    return sheet_of(
        Table(id="wide", title="Wide", caption="", entry="entry", columns=specs, rows=lines, ranked_by="k0")
    )


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (3, 5), (7, 20), (30, 4), (2, 200), (12, 90)])
def test_the_parts_of_a_sheet_hold_every_number_once(columns: int, rows: int) -> None:
    sheet = wide(columns, rows)
    pieces = parts_of(sheet)
    cells = [
        (line.label, column.key) for piece in pieces for line in piece.sheet.lines for column in piece.sheet.columns
    ]
    assert len(cells) == len(set(cells)) == columns * rows
    assert all(len(line.cells) == len(piece.sheet.columns) for piece in pieces for line in piece.sheet.lines)
    assert len({piece.key for piece in pieces}) == len(pieces)
    assert [bool(piece.sheet.remarks) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) == -(-columns // COLUMNS) * -(-rows // ROWS)


def test_a_table_of_seven_columns_is_one_table_with_intervals_below_their_numbers() -> None:
    sheet = wide(7, 5, "jpeg", 1)
    (piece,) = parts_of(sheet)
    assert piece.below
    text = latex(sheet)
    assert text.count("\\begin{table}") == 1
    assert "\\shortstack[r]{\\textbf{10.0}\\\\{\\scriptsize [9.0, 12.0]}}" in text
    assert "linebreak() + text(size: 0.8em" in typst(wide(7, 5))
    assert not parts_of(wide(2, 5))[0].below


def test_notes_stand_below_each_part_that_has_their_letters() -> None:
    sheet = contest()
    for piece in parts_of(replace(sheet, lines=sheet.lines * 40)):
        used = {letter for line in piece.sheet.lines for cell in (line, *line.cells) for letter in cell.notes}
        assert {letter for letter, _ in piece.sheet.notes} == used


@given(st.text(max_size=60), st.integers(1, 20))
def test_a_wrapped_text_loses_nothing_but_blanks(text: str, letters: int) -> None:
    lines = wrapped(text, letters)
    assert "".join("".join(lines).split()) == "".join(plain(text).split())
    assert all(len(line) <= letters for line in lines)


def test_a_long_name_is_broken_after_its_commas() -> None:
    assert wrapped("acme/long[first=1,second=2,third=3]", 20) == ["acme/long[first=1,", "second=2,third=3]"]


@pytest.mark.parametrize(
    ("text", "expected"), [("＝ﬁ", "=fi"), ("Ł", "Ł"), ("ą", "a"), ("x中", "x[U+4E2D]"), ("≈", r"$\approx$")]
)
def test_signs_that_pdflatex_has_not_are_written_with_those_it_has(text: str, expected: str) -> None:
    assert latex_text(text) == expected


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "make", [contest, evil_sheet, lambda: wide(30, 60), lambda: wide(5, 3, "acme/long[" + "x=1," * 30)]
)
def test_latex_compiles_and_fits_the_page(make, tmp_path: Path) -> None:
    text = (
        rf"\documentclass{{article}}\usepackage{{adjustbox,booktabs}}\begin{{document}}{latex(make())}\end{{document}}"
    )
    (tmp_path / "t.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert not re.findall(r"^Overfull .*", ran.stdout, re.M)
    if make is not evil_sheet:  # one of its rows, with the notes below it, is higher than a page
        assert "Float too large" not in ran.stdout


@given(st.text(max_size=30))
def test_latex_text_has_no_sign_that_latex_would_act_on(text: str) -> None:
    escaped = latex_text(text)
    command_pattern = (
        r"\\text(backslash|asciitilde|asciicircum|less|greater|bar|asciigrave)\{\}|\$[^$]{1,13}\$|\\[&%$#_{}]"
    )
    rest = re.sub(command_pattern, "", escaped)
    assert not SPECIAL.search(rest)
    assert "\\" not in rest
    assert "--" not in rest or "–" in text or "—" in text


@given(st.text(max_size=30))
def test_typst_text_is_one_string(text: str) -> None:
    assert re.fullmatch(r'"(?:[^"\\\n]|\\["\\])*"', typst_text(text))


def test_typst_has_a_cell_for_each_number() -> None:
    sheet = evil_sheet()
    pieces = parts_of(sheet)
    heads = 2 + len(sheet.columns)  # the names of the entries, the facet, and the columns
    assert typst(sheet).count(f"columns: {heads},") == len(pieces)
    best = sum(cell.best for line in sheet.lines for cell in line.cells)
    assert typst(sheet).count("strong(") == heads * len(pieces) + best


def rendered(text: str) -> list[str]:
    """Return the cells of a Markdown table as a reader sees them, by a CommonMark parser with tables."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children or ()}
    html = {child.content for token in inline for child in token.children or () if child.type == "html_inline"}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "html_inline", "softbreak"}
    assert html <= {"<sup>", "</sup>", "<!-- -->"}
    return ["".join(c.content for c in token.children or () if c.type != "html_inline") for token in inline]


def test_markdown_shows_every_text_as_it_is() -> None:
    sheet = evil_sheet()
    cells = rendered(markdown(sheet))
    assert cells[0] == EVIL.rstrip(".") + ". " + EVIL
    assert cells[1:3] == [EVIL, EVIL]
    assert sum(cell.startswith(EVIL + "a") or cell == EVIL for cell in cells) >= 2
    assert any(cell.startswith("-1.25") and cell.endswith("[-2.000, 0.000]") for cell in cells)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20))
def test_markdown_text_comes_back(text: str) -> None:
    assert rendered(f"| {markdown_text(text)} |\n| --- |\n") == [text]


def test_csv_has_full_numbers_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of(evil_sheet()).decode())))
    assert {row[f"{EVIL} low"] for row in rows if f"{EVIL} low" in row} <= {"-2.0"}
    for row in csv.reader(io.StringIO(csv_of(evil_sheet()).decode())):
        for cell in row:
            if cell[:1] in ("=", "+", "-", "@", "\t", "＝"):
                float(cell)  # a number, and no text
    sheet = contest()
    rows = list(csv.DictReader(io.StringIO(csv_of(sheet).decode())))
    assert [row["defense"] for row in rows] == [row.label for row in sheet.table.rows]
    label = next(c.label for c in sheet.columns if c.key == "worst")
    assert [float(row[label]) for row in rows] == [row.values["worst"].value for row in sheet.table.rows]
    assert {row["defense"]: row["winner"] for row in rows}[JPEG] == "winner"


def test_json_and_parquet_have_what_the_table_has() -> None:
    sheet = contest()
    (facts,) = json.loads(json_of([sheet]))
    rows_by_label = {row["defense"]: row for row in facts["rows"]}
    assert rows_by_label[JPEG]["winner"] is True
    assert (
        rows_by_label[FLIP]["values"]["worst"]["low"]
        == sheet.table.rows[[*rows_by_label].index(FLIP)].values["worst"].low
    )
    assert any("Incomplete" in note for note in rows_by_label[PURIFIER]["notes"])
    table = pq.read_table(io.BytesIO(parquet_of(sheet)))
    assert table["defense"].to_pylist() == list(rows_by_label)
    assert table.schema.metadata[b"title"].decode() == sheet.title


def test_columns_of_one_label_are_all_written() -> None:
    leaderboard = sample_leaderboard()
    table = leaderboard.tables[0]
    twins = tuple(column.model_copy(update={"label": "same"}) for column in table.columns[:2])
    sheet = sheet_of(table.model_copy(update={"columns": twins}), leaderboard)
    names = pq.read_table(io.BytesIO(parquet_of(sheet))).column_names
    assert {"same", f"same ({twins[1].key})"} <= set(names)


def test_marks_stand_with_their_own_column_where_two_have_one_label() -> None:
    columns = tuple(
        ColumnSpec(key=key, label="score", description="", better=better)
        for key, better in (("one", "lower"), ("two", "higher"))
    )
    rows = tuple(
        Row(label=label, values={"one": Value(value=value), "two": Value(value=value)})
        for label, value in (("a", 1.0), ("b", 2.0))
    )
    table = Table(id="t", title="t", caption="", entry="entry", columns=columns, rows=rows, ranked_by="one")
    csv_rows = list(csv.DictReader(io.StringIO(csv_of(sheet_of(table)).decode())))
    assert [row["score mark"] for row in csv_rows] == ["best", ""]
    assert [row["score (two) mark"] for row in csv_rows] == ["", "best"]


@pytest.mark.extra
@pytest.mark.parametrize("make", [contest, evil_sheet])
def test_a_latex_parser_reads_back_what_was_written(make) -> None:
    from pylatexenc.latex2text import LatexNodes2Text
    from pylatexenc.latexwalker import LatexWalker

    sheet = make()
    LatexWalker(latex(sheet), tolerant_parsing=False).get_latex_nodes()
    read, unknown = LatexNodes2Text(), {"\\textless{}": "<", "\\textgreater{}": ">", "\\textbar{}": "|"}
    for text in (sheet.caption, *(line.name for line in sheet.lines)):
        written = latex_text(text)
        for macro, sign in unknown.items():  # the parser does not know these macros
            written = written.replace(macro, sign)
        plain_text = read.latex_to_text(written).replace("”", '"').replace("ˆ", "^")
        wanted = "".join(text.split()).replace("＝", "=")  # pdfLaTeX has no wide signs
        assert "".join(plain_text.split()) == wanted


@pytest.mark.extra
@pytest.mark.parametrize("make", [contest, evil_sheet])
def test_typst_compiles_and_holds_every_text(make) -> None:
    import typst as compiler

    sheet = make()
    assert compiler.compile(typst(sheet).encode(), format="pdf").startswith(b"%PDF")
    figures = json.loads(compiler.query(typst(sheet).encode(), "figure"))
    wanted = [" ".join(piece.sheet.caption.split()) for piece in parts_of(sheet)]
    assert [figure["caption"]["body"]["text"] for figure in figures] == wanted
    assert wanted[0].startswith(" ".join(sheet.caption.split()))


@pytest.mark.extra
def test_a_workbook_has_numbers_and_no_formula() -> None:
    from openpyxl import load_workbook

    from imharness.exports import xlsx_of

    sheets = [contest(), evil_sheet(), evil_sheet()]
    book = load_workbook(io.BytesIO(xlsx_of(sheets)))
    assert len(book.sheetnames) == 3
    kinds = {cell.data_type for page in book for row in page.iter_rows() for cell in row if cell.value is not None}
    assert kinds == {"s", "n"}
    assert not [cell for page in book for row in page.iter_rows() for cell in row if cell.hyperlink]
    page, sheet = book.worksheets[0], sheets[0]
    heads = [cell.value for cell in page[3]]
    column_index = heads.index(next(c.label for c in sheet.columns if c.key == "worst"))
    cells = {row[0].value: row[column_index] for row in page.iter_rows(min_row=4, max_row=3 + len(sheet.lines))}
    wanted = {row.label: row.values["worst"].value for row in sheet.table.rows}
    assert {label: cell.value for label, cell in cells.items()} == pytest.approx(wanted, rel=1e-15)
    assert [label for label, cell in cells.items() if cell.font.b] == [
        line.label for line in sheet.lines if line.cells[[c.key for c in sheet.columns].index("worst")].best
    ]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"n": 36, "clusters": 1}, "Nothing is marked: 1 photograph, and an interval needs at least 5."),
        ({"n": 4}, "Nothing is marked: 4 images, and an interval needs at least 5."),
        ({"n": 36, "clusters": 5}, ""),
    ],
)
def test_nothing_is_marked_of_fewer_units_than_a_test_needs(counts: dict[str, int], reason: str) -> None:
    columns = (
        ColumnSpec(key="d", label="D", description="", better="lower", unit="image", cluster_unit="photograph"),
        ColumnSpec(key="rank", label="rank", description="", better="lower"),
    )
    rows = tuple(
        Row(label=label, values={"d": Value(value=value, **counts), "rank": Value(value=rank)})
        for label, value, rank in (("a/b", 1.0, 1.0), ("a/c", 2.0, 2.0))
    )
    table = Table(
        id="t",
        title="t",
        caption="",
        entry="entry",
        columns=columns,
        rows=rows,
        ranked_by="d",
        not_worse={"d": ("a/c",)},
    )
    sheet = sheet_of(table)
    assert [cell.best for line in sheet.lines for cell in line.cells] == [not reason] * 2 + [False] * 2
    assert sheet.lines[1].cells[0].tied == (not reason)
    assert any(reason in remark for remark in sheet.remarks)
    assert any("is marked" in remark for remark in sheet.remarks) == bool(reason)


def test_columns_of_too_few_units_beside_others_are_named() -> None:
    columns = tuple(ColumnSpec(key=key, label=key, description="", better="higher", unit="image") for key in "ab")
    row = Row(label="x/y", values={"a": Value(value=1.0, n=3), "b": Value(value=1.0, n=30)})
    sheet = sheet_of(Table(id="t", title="t", caption="", entry="e", columns=columns, rows=(row,), ranked_by="a"))
    assert [cell.best for cell in sheet.lines[0].cells] == [False, True]
    assert "No number of a is marked: 3 images, and an interval needs at least 5." in sheet.remarks


@pytest.mark.parametrize("text", ["- a", "+ a", "1. a", "12) a", "===", "---", "    a", "* a", "# a", "> a", "a"])
def test_a_remark_is_a_paragraph_of_its_own(text: str) -> None:
    leaderboard = sample_leaderboard(rankings=())
    sheet = sheet_of(leaderboard.tables[0].model_copy(update={"note": text}), leaderboard)
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(sheet))
    assert {token.type for token in tokens} <= {
        "inline",
        "paragraph_open",
        "paragraph_close",
        *(f"{kind}_{way}" for kind in ("table", "thead", "tbody", "tr", "th", "td") for way in ("open", "close")),
    }


@pytest.mark.parametrize("text", ["by @octocat", "@octocat/team", "see #12", "a@example.org"])
def test_markdown_mentions_nobody_and_refers_to_no_issue(text: str) -> None:
    """GitHub looks for names in the text of each node of the page: none may hold the sign and what follows it."""
    rendered = MarkdownIt("commonmark").render(markdown_text(text))
    assert not re.search(r"[@#]\w", rendered)
    assert re.sub("<[^>]*>", "", rendered).strip() == text

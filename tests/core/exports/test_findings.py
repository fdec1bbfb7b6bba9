"""What a board found stands in every form in which it leaves the harness, from one source."""

import csv
import html
import io
import json

import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from tests.core.exports.boards import board
from tests.leaderboard.contested import FLIP, JPEG

from imharness.cli.ranking import show
from imharness.cli.run import _report
from imharness.exports import csv_of, json_of, latex, markdown, parquet_of, sheet_of, typst
from imharness.exports.dataset import dataset_files
from imharness.exports.markup import latex_text, typst_text
from imharness.exports.sheets import printed
from imharness.notebook.result import Result
from imharness.results.findings import LEADING, by_tier, first_sentences
from imharness.running.sweep import RunResult

BOARD = board()
SHEET = sheet_of(BOARD.tables[0], BOARD)
FOUND = BOARD.rankings[0].findings


def test_the_board_of_this_test_has_all_tiers() -> None:
    assert {*by_tier(FOUND)} == {"shown", "ruled out", "open"}
    assert {own.entry for own in FOUND} >= {JPEG, FLIP}


def test_tables_for_programs_have_each_sentence_with_its_entry_and_its_numbers() -> None:
    (facts,) = json.loads(json_of([SHEET]))
    assert facts["claim"] == BOARD.rankings[0].claim
    assert facts["findings"] == [own.model_dump(mode="json") for own in FOUND]
    rows = list(csv.DictReader(io.StringIO(csv_of(SHEET).decode())))
    said = {row["defense"]: row["findings"] for row in rows}
    columns = pq.read_table(io.BytesIO(parquet_of(SHEET))).to_pydict()
    assert dict(zip(columns["defense"], columns["findings"], strict=True)) == said
    for own in FOUND:
        assert f"{own.tier}: {own.text}" in said[own.entry]
    assert sum(len(text) > 0 for text in said.values()) == len({own.entry for own in FOUND})


@pytest.mark.parametrize("form", ["latex", "typst", "markdown"])
def test_tables_for_papers_list_each_sentence_below(form: str) -> None:
    write, escaped = {"latex": (latex, latex_text), "typst": (typst, typst_text), "markdown": (markdown, str)}[form]
    text = write(SHEET)
    shown = text
    if form == "markdown":
        tokens = [own for token in MarkdownIt().parse(text) for own in token.children or ()]
        shown = "".join(own.content for own in tokens if own.type != "html_inline")
    for sentence in (BOARD.rankings[0].claim, *(own.text for own in FOUND)):
        assert shown.count(escaped(sentence.replace("harness/", ""))) == 1
    study = sheet_of(BOARD.tables[0].model_copy(update={"id": "study"}), BOARD)
    assert all(own.text.replace("harness/", "") not in write(study) for own in FOUND)


def test_notebooks_terminals_and_cards_show_the_first_sentences_of_each_tier(capsys: pytest.CaptureFixture) -> None:
    result = Result("a test", BOARD.tables, boards={BOARD.tables[0].id: BOARD})
    page, card = result._repr_html_(), dataset_files([BOARD], "acme/board", "2026-01")["README.md"].decode()
    show(BOARD)
    terminal = " ".join(capsys.readouterr().out.split())
    tokens = [own.content for token in MarkdownIt().parse(card) for own in token.children or ()]
    plain = " ".join("".join(tokens).split())
    for tier, own in by_tier(FOUND).items():
        for finding in own[:LEADING]:
            line = f"{tier}: {finding.text}"
            assert printed(line) in repr(result)
            assert html.escape(printed(line)) in page
            assert " ".join(printed(line).split()) in terminal
            assert " ".join(line.split()) in plain


def test_more_sentences_than_a_short_form_shows_are_counted() -> None:
    many = [FOUND[0]] * (LEADING + 3)
    assert first_sentences(many, "elsewhere")[-1] == f"{FOUND[0].tier}: 3 more sentences elsewhere"
    assert first_sentences(many[2:], "elsewhere")[-1] == f"{FOUND[0].tier}: 1 more sentence elsewhere"
    assert len(first_sentences(many[:LEADING], "elsewhere")) == LEADING


def test_a_run_prints_them_as_json_with_their_numbers(capsys: pytest.CaptureFixture, tmp_path) -> None:
    _report([], [BOARD], RunResult(), tmp_path, True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["findings"][BOARD.track] == [own.model_dump(mode="json") for own in FOUND]

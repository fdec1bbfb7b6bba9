"""The sentences on findings of a leaderboard are in every export, in notebooks, in the terminal and on cards."""

import csv
import html
import io
import json

import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from tests.core.exports.leaderboards import sample_leaderboard
from tests.leaderboard.contested import FLIP, JPEG

from imharness.cli.ranking import show
from imharness.cli.run import _report
from imharness.cli.standings import names_in
from imharness.documents.findings import LEADING, by_tier, first_sentences
from imharness.documents.naming import in_names
from imharness.exports import csv_of, json_of, latex, markdown, parquet_of, sheet_of, typst
from imharness.exports.dataset import dataset_files
from imharness.exports.markup import latex_text, typst_text
from imharness.notebook.result import Result
from imharness.results.labels import printed
from imharness.running.sweep import RunResult

LEADERBOARD = sample_leaderboard()
SHEET = sheet_of(LEADERBOARD.tables[0], LEADERBOARD)
FOUND = LEADERBOARD.rankings[0].findings
"""Sentences, each of an entry, in three tiers: what is shown, what is ruled out, what is open."""


def test_the_leaderboard_of_this_test_has_all_tiers() -> None:
    assert {*by_tier(FOUND)} == {"shown", "ruled out", "open"}
    assert {finding.entry for finding in FOUND} >= {JPEG, FLIP}


def test_tables_for_programs_have_each_sentence_with_its_entry_and_its_numbers() -> None:
    (facts,) = json.loads(json_of([SHEET]))
    assert facts["claim"] == LEADERBOARD.rankings[0].claim
    assert facts["findings"] == [item.model_dump(mode="json") for item in FOUND]
    rows = list(csv.DictReader(io.StringIO(csv_of(SHEET).decode())))
    findings = {row["defense"]: row["findings"] for row in rows}
    columns = pq.read_table(io.BytesIO(parquet_of(SHEET))).to_pydict()
    assert dict(zip(columns["defense"], columns["findings"], strict=True)) == findings
    for finding in FOUND:
        assert f"{finding.tier}: {finding.text}" in findings[finding.entry]
    assert sum(len(text) > 0 for text in findings.values()) == len({item.entry for item in FOUND})


@pytest.mark.parametrize("form", ["latex", "typst", "markdown"])
def test_tables_for_papers_list_each_sentence_below(form: str) -> None:
    write, escaped = {"latex": (latex, latex_text), "typst": (typst, typst_text), "markdown": (markdown, str)}[form]
    text = write(SHEET)
    visible_text = text
    if form == "markdown":
        tokens = [child for token in MarkdownIt().parse(text) for child in token.children or ()]
        visible_text = "".join(token.content for token in tokens if token.type != "html_inline")
    for sentence in (LEADERBOARD.rankings[0].claim, *(finding.text for finding in FOUND)):
        assert visible_text.count(escaped(sentence.replace("harness/", ""))) == 1
    study = sheet_of(LEADERBOARD.tables[0].model_copy(update={"id": "study"}), LEADERBOARD)
    assert all(finding.text.replace("harness/", "") not in write(study) for finding in FOUND)


def test_notebooks_terminals_and_cards_show_the_first_sentences_of_each_tier(capsys: pytest.CaptureFixture) -> None:
    result = Result("a test", LEADERBOARD.tables, leaderboards={LEADERBOARD.tables[0].id: LEADERBOARD})
    page, card = result._repr_html_(), dataset_files([LEADERBOARD], "acme/leaderboard", "2026-01")["README.md"].decode()
    names = names_in(LEADERBOARD.tables[0])
    show(LEADERBOARD)
    terminal = " ".join(capsys.readouterr().out.split())
    tokens = [child.content for token in MarkdownIt().parse(card) for child in token.children or ()]
    plain = " ".join("".join(tokens).split())
    for tier, tier_findings in by_tier(FOUND).items():
        for finding in tier_findings[:LEADING]:
            line = f"{tier}: {finding.text}"
            assert printed(line) in repr(result)
            assert html.escape(printed(line)) in page
            assert " ".join(in_names(line, names).split()) in terminal
            assert " ".join(line.split()) in plain


def test_more_sentences_than_a_short_form_shows_are_counted() -> None:
    many = [FOUND[0]] * (LEADING + 3)
    assert first_sentences(many, "elsewhere")[-1] == f"{FOUND[0].tier}: 3 more sentences elsewhere"
    assert first_sentences(many[2:], "elsewhere")[-1] == f"{FOUND[0].tier}: 1 more sentence elsewhere"
    assert len(first_sentences(many[:LEADING], "elsewhere")) == LEADING


def test_a_run_prints_them_as_json_with_their_numbers(capsys: pytest.CaptureFixture, tmp_path) -> None:
    _report([], [LEADERBOARD], RunResult(), tmp_path, "store", 1.0, True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["findings"][LEADERBOARD.track] == [finding.model_dump(mode="json") for finding in FOUND]

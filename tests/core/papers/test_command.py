"""`harness papers`: show, compare, reproduce published tables; `membership/4` is table 4 of Song and Mittal (2021)."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.conftest import without_site

from imharness.cli import cli, console
from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard, write_leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.errors import UsageError
from imharness.papers import published
from imharness.papers.published import PublishedTable, find_table
from imharness.planning.profiles import load_profile
from imharness.results.store import Store


def find_profile(name: str, track: str) -> dict[str, list[str]]:
    """Return what a profile selects in a track, kind -> names."""
    return {kind: list(names) for kind, names in load_profile(name).tracks[track].select.items()}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print lines of up to 300 characters, so that none is broken."""
    monkeypatch.setattr(console, "out", Console(highlight=False, width=300))


def papers(*words: str) -> str:
    """Run `harness papers`, and return what it prints."""
    result = CliRunner().invoke(cli, ["papers", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def store(tmp_path) -> str:
    """Return a store with numbers of Location30 in the setting of table 4.

    The number of the confidence attack, .70, disagrees with the printed one; the others agree.
    """
    columns = {
        "e0": "harness/confidence",
        "e1": "harness/correctness",
        "test": "Test accuracy",
        "train": "Train accuracy",
    }
    values = {"e0": 0.70, "e1": 0.687, "test": 0.607, "train": 1.0}
    rows = tuple(
        Row(label=label, values={key: Value(value=v, low=v - 0.01, high=v + 0.01) for key, v in values.items()})
        for label in ("harness/plain-training", "harness/memguard[epochs=60]")
    )
    table = Table(
        id="accuracy",
        title="",
        caption="",
        entry="defense",
        rows=rows,
        columns=tuple(ColumnSpec(key=key, label=label, description="") for key, label in columns.items()),
    )
    used = {"dataset": "harness/location30", "model": "harness/mlp"}
    leaderboard = Leaderboard(
        track="harness/membership",
        title="",
        measures="",
        profile="paper",
        seed=0,
        limit=None,
        command="",
        finished="",
        missing=(),
        tasks_done=1,
        tasks_failed=0,
        tasks_missing=0,
        tables=(table,),
        versions={},
        entries=tuple(Entry(kind=kind, id=id, label=id, version="1") for kind, id in used.items()),
        sources="",
        set_up=find_table("membership/4").set_up["paper"],
    )
    write_leaderboard(Store(tmp_path / "store"), leaderboard, {})
    return str(tmp_path / "store")


def test_list_names_every_table_and_why_some_have_no_numbers():
    text = papers("show")
    assert "iqa/3-training" in text
    assert "Names of distortions and of their parameters; no numbers." in text
    listed = json.loads(papers("show", "--json"))["tables"]
    assert len(listed) == 63
    assert listed[0]["cited"].endswith("(2025), table 1")


def test_show_prints_a_table_as_it_is_printed_with_what_is_known_against_it():
    text = papers("show", "membership/4")
    assert "99.95" in text
    assert "note: The neural attack is the best of six in Jia et al." in text
    table_facts = json.loads(papers("show", "iqa/14", "--json"))
    first = table_facts["rows"][0]["values"][0]
    assert first == {"text": "0.36±0.65", "value": 0.36, "spread": 0.65}
    assert "not transcribed: Holds no numbers." in papers("show", "iqa/1")


def test_compare_tells_what_agrees_what_does_not_and_what_was_not_run(store):
    text = papers("compare", "membership/4", "--store", store)
    assert "same setting: 3 of 4 numbers agree" in text
    assert "not run: neural attack of Jia et al.: column harness/neural[*] is not there" in text
    ours = "harness run --profile song-mittal --track membership --dataset harness/location30 --model harness/mlp"
    assert f"run it with: {ours} --defense harness/plain-training --defense harness/memguard" in text
    (facts,) = json.loads(papers("compare", "membership/4", "--store", store, "--json"))["comparisons"]
    verdicts = {c["entry"]: c["verdict"] for c in facts["series"][0]["cells"]}
    assert verdicts["confidence"] == "disagrees"
    assert verdicts["correctness"] == verdicts["test accuracy"] == "agrees"
    assert {c["verdict"] for c in facts["series"][1]["cells"]} == {"another setting", "not run"}
    assert "harness/memguard has epochs=60" in facts["series"][1]["cells"][0]["differs"]


def test_compare_of_all_tables_has_a_line_for_each(store):
    comparisons = json.loads(papers("compare", "--store", store, "--json"))["comparisons"]
    assert {comparison["table"]: comparison["verdict"] for comparison in comparisons}["iqa/2"] == "not run"
    text = papers("compare", "--store", store)
    assert "no number of ours is the same quantity" in text
    assert "not run: 16" in text


def reproduced(*words: str, code: int) -> str:
    """Run `harness papers reproduce`, check its exit status, and return what it prints."""
    result = CliRunner().invoke(cli, ["papers", "reproduce", *words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_reproduce_says_what_is_missing_with_the_command_that_gets_it(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ("membership/4", "--store", store, "--site", str(tmp_path / "site"), "--offline")
    text = reproduced(*words, code=1)
    assert "same setting: 3 of 4 numbers agree" in text
    assert "harness assets get location30" in text
    assert "harness assets get texas100" in text
    assert "no task of harness/membership can be computed" in text or "texas100 is not on this machine" in text
    assert "would run: harness run --profile song-mittal" in reproduced(*words, "--dry-run", code=1)
    with pytest.raises(UsageError, match="is not transcribed: Holds no numbers"):
        reproduced("iqa/1", code=2)


def test_reproduce_runs_and_compares(tmp_path, monkeypatch):
    facts = {
        "name": "1",
        "paper": "a2020",
        "table": "1",
        "track": "harness/perceptual",
        "title": "t",
        "setting": "s",
        "data": ["harness/distorted-pairs"],
        "profiles": ["quick"],
        "kinds": {"rows": "metric"},
        "columns": [{"key": "all", "label": "all", "ours": "agreement:all"}],
        "rows": [
            {"label": "L2", "ours": "harness/l2", "values": "0.9"},
            {"label": "nothing", "ours": "harness/nothing", "values": "0.5"},
        ],
        "selections": {"quick": find_profile("quick", "harness/perceptual")},
    }
    monkeypatch.setattr(published, "find_table", lambda name: PublishedTable.model_validate(facts))
    words = ("perceptual/1", "--store", str(tmp_path / "store"), "--site", str(tmp_path / "site"))
    with without_site():
        text = reproduced(*words, code=1)
    assert ("another setting" in text) != ("same setting" in text)
    assert "harness/nothing" in text
    assert "it is not in the profile" in text
    leaderboard = read_leaderboard(Store(tmp_path / "store"), "harness/perceptual")
    agreement = next(table for table in leaderboard.tables if table.id == "agreement")
    (row,) = (row for row in agreement.rows if row.label == "harness/l2")
    assert f"{row.values['all'].value:.4g}" in text


def test_an_unknown_table_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'membership/4'"):
        papers("show", "membership/44")

"""Tables that are gone, or made by other code, are made again from the rows of a real run; no task is computed."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.rows_of import files_of

from imharness.cli import cli
from imharness.documents.stored import read_leaderboard
from imharness.results.storage.local import LocalFiles
from imharness.results.store import Store


@pytest.fixture(scope="module")
def drawn(ran: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(ran, tmp_path_factory.mktemp("rescoring") / "run")


def sample_leaderboard(folder: Path) -> dict:
    return json.loads((folder / "store" / "leaderboards" / "harness--perceptual.json").read_text())


@pytest.mark.parametrize("change", ["older", "gone", "damaged"])
def test_tables_are_made_again(drawn: Path, harness_here, change: str) -> None:
    path = drawn / "store" / "leaderboards" / "harness--perceptual.json"
    before, tasks = sample_leaderboard(drawn), files_of(drawn / "store")
    times = [task.stat().st_mtime_ns for task in tasks]
    if change == "older":
        store, track = Store(drawn / "store"), "harness/perceptual"
        older = {"scored_by": {"image-privacy-harness": "0.0.1"}, "origin": "0" * 64, "title": "Old"}
        store.replace("leaderboards/harness--perceptual.json", read_leaderboard(store, track).model_copy(update=older))
    elif change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    result = harness_here("site", "build", cwd=drawn)
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr
    assert sample_leaderboard(drawn) == before
    assert [task.stat().st_mtime_ns for task in tasks] == times
    assert "Stale" not in (drawn / "site" / "perceptual.html").read_text()


def test_ranking_by_hand_says_what_it_did(drawn: Path, harness_here) -> None:
    result = harness_here("results", "rank", "--track", "perceptual", cwd=drawn)
    assert result.returncode == 0, result.stderr
    assert "harness/perceptual: 5 tables from 10 tasks" in result.stdout


def test_ranking_a_store_that_is_read_only_prints_the_tables_and_says_that_it_keeps_none(
    drawn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(drawn)
    monkeypatch.setattr(LocalFiles, "writable", lambda self: False)
    before = {path: path.read_bytes() for path in (drawn / "store").rglob("*") if path.is_file()}
    result = CliRunner().invoke(cli, ["results", "rank"])
    assert result.exit_code == 0, result.output
    assert "tables of" in result.output
    assert "warning: the tables of harness/perceptual are not kept" in result.output
    assert {path: path.read_bytes() for path in (drawn / "store").rglob("*") if path.is_file()} == before


def test_results_that_were_discarded_are_told_by_whoever_ranks(drawn: Path, harness_here) -> None:
    folder = shutil.copytree(drawn, drawn.parent / "discarded")
    files_of(folder / "store")[0].unlink()
    result = harness_here("results", "rank", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "left out: 1 task of" in result.stdout
    assert "no longer in the store" in result.stdout


def test_a_release_of_a_real_run_is_published_and_served_whole(drawn: Path, harness_here) -> None:
    result = harness_here("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=drawn)
    assert result.returncode == 0, result.stderr
    assert (drawn / "public" / "v" / "2026-01-01" / "perceptual.html").exists()
    again = harness_here("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=drawn)
    assert again.returncode == 2
    assert "never changes" in again.stderr

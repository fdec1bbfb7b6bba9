"""Tables that are gone, or of other code, are made again from the raw rows of a real run, without computing a cell."""

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, harness) -> Path:
    folder = tmp_path_factory.mktemp("run")
    words = ("run", "--track", "perceptual", "--metric", "psnr", "--metric", "mae", "--limit", "12", "--workers", "0")
    result = harness(*words, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


def board(folder: Path) -> dict:
    return json.loads((folder / "store" / "boards" / "harness--perceptual.json").read_text())


@pytest.mark.parametrize("change", ["older", "gone", "damaged"])
def test_tables_are_made_again(ran: Path, harness, change: str) -> None:
    path = ran / "store" / "boards" / "harness--perceptual.json"
    before, cells = board(ran), sorted((ran / "store" / "tasks").rglob("*.json"))
    times = [cell.stat().st_mtime_ns for cell in cells]
    if change == "older":
        path.write_text(json.dumps({**before, "scored_by": {"image-privacy-harness": "0.0.1"}, "title": "Old"}))
    elif change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    result = harness("site", "build", cwd=ran)
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr
    assert board(ran) == before
    assert [cell.stat().st_mtime_ns for cell in cells] == times
    assert "Stale" not in (ran / "site" / "perceptual.html").read_text()


def test_ranking_by_hand_says_what_it_did(ran: Path, harness) -> None:
    result = harness("results", "rank", "--track", "perceptual", cwd=ran)
    assert result.returncode == 0, result.stderr
    assert "harness/perceptual:" in result.stdout
    assert "tables of" in result.stdout


def test_a_release_of_a_real_run_is_published_and_served_whole(ran: Path, harness) -> None:
    result = harness("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=ran)
    assert result.returncode == 0, result.stderr
    assert (ran / "public" / "v" / "2026-01-01" / "perceptual.html").exists()
    again = harness("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=ran)
    assert again.returncode == 2
    assert "never changes" in again.stderr

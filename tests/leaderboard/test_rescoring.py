"""Tables that are gone, or of other code, are made again from the raw rows of a real run, without computing a cell."""

import json
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def own(ran: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(ran, tmp_path_factory.mktemp("rescoring") / "run")


def board(folder: Path) -> dict:
    return json.loads((folder / "store" / "boards" / "harness--perceptual.json").read_text())


@pytest.mark.parametrize("change", ["older", "gone", "damaged"])
def test_tables_are_made_again(own: Path, harness_here, change: str) -> None:
    path = own / "store" / "boards" / "harness--perceptual.json"
    before, cells = board(own), sorted((own / "store" / "tasks").rglob("*.json"))
    times = [cell.stat().st_mtime_ns for cell in cells]
    if change == "older":
        path.write_text(json.dumps({**before, "scored_by": {"image-privacy-harness": "0.0.1"}, "title": "Old"}))
    elif change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    result = harness_here("site", "build", cwd=own)
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr
    assert board(own) == before
    assert [cell.stat().st_mtime_ns for cell in cells] == times
    assert "Stale" not in (own / "site" / "perceptual.html").read_text()


def test_ranking_by_hand_says_what_it_did(own: Path, harness_here) -> None:
    result = harness_here("results", "rank", "--track", "perceptual", cwd=own)
    assert result.returncode == 0, result.stderr
    assert "harness/perceptual:" in result.stdout
    assert "tables of" in result.stdout


def test_a_release_of_a_real_run_is_published_and_served_whole(own: Path, harness_here) -> None:
    result = harness_here("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=own)
    assert result.returncode == 0, result.stderr
    assert (own / "public" / "v" / "2026-01-01" / "perceptual.html").exists()
    again = harness_here("site", "publish", "--to", "public", "--release", "2026-01-01", cwd=own)
    assert again.returncode == 2
    assert "never changes" in again.stderr

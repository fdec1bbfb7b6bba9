"""What a maintainer decides by the command line, from the refusal to the table that changes."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.conftest import without_site
from tests.submissions.conftest import PROFILE, submission_in, unexamined
from tests.submissions.test_honest import leaderboard_of
from tests.submissions.test_run import entry

from imharness.cli import cli
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import UsageError
from imharness_submissions.ledger import Ledger

SHOWN = "without effect on ranks until a person accepts them"


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def notes(leaderboard: Leaderboard) -> str:
    return " ".join(table.note for table in leaderboard.tables)


def judged_by(leaderboard: Leaderboard) -> set[str]:
    """Return the metrics by which the leaderboard ranks."""
    (ranking,) = leaderboard.rankings
    paired = next(comparison for comparison in leaderboard.comparisons if comparison.id == ranking.comparison)
    return {condition.facets["metric"] for condition in paired.conditions}


def words_of(root: Path) -> tuple[str | Path, ...]:
    return "--profile", root / "tiny.toml", "--device", "cpu", "--limit", "12", "--workers", "0"


@pytest.fixture(scope="module")
def decided(module_folder: Path) -> Path:
    """Return a folder with a store in which a metric was run that nobody has accepted."""
    (module_folder / "tiny.toml").write_text(PROFILE)
    folder = submission_in(module_folder, "../submissions/tracks/contrast", entry("good/contrast", "metric"))
    options = ("--store", module_folder / "store", "--site", module_folder / "site")
    with without_site(), unexamined():
        done = invoke("submissions", "run", folder, *options, *words_of(module_folder))
    assert done.exit_code == 0, done.output
    return module_folder


def test_who_is_not_in_the_ledger_is_not_decided_on(tmp_path: Path) -> None:
    options = ("--store", tmp_path / "store", "--site", tmp_path / "site")
    refused = invoke("submissions", "decide", "contrast", "accepted", "--reason", "read", *options)
    assert isinstance(refused.exception, UsageError)
    assert "the ledger has no submission 'contrast'" in str(refused.exception)


@pytest.mark.parametrize("baselines", [True, False], ids=["beside the baselines", "alone in the store"])
def test_an_accepted_metric_decides_and_a_withdrawn_one_no_more(
    decided: Path, tmp_path: Path, no_site: None, baselines: bool
) -> None:
    store = Path(shutil.copytree(decided / "store", tmp_path / "store"))
    options = ("--store", store, "--site", tmp_path / "site")
    if baselines:
        assert invoke("run", "--all", *options, *words_of(decided), "--progress", "none").exit_code == 0
    before = leaderboard_of(store, "iqa")
    assert f"{SHOWN}: good/contrast (metric)" in notes(before)
    for decision, by in (("accepted", {"good/contrast"}), ("flagged", set()), ("accepted", {"good/contrast"})):
        done = invoke("submissions", "decide", "contrast", decision, "--reason", "read its code", *options)
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[-1] == f"contrast: {decision}"
        leaderboard = leaderboard_of(store, "iqa")
        baseline_judges = {"harness/embedded-cnn"} if baselines else set()
        assert {
            name for ranking in leaderboard.rankings[:1] for name in judged_by(leaderboard)
        } == baseline_judges | by, ranking_of(leaderboard)
        assert (SHOWN in notes(leaderboard)) == (not by)
    gone = invoke("submissions", "decide", "contrast", "withdrawn", "--reason", "asked for", *options)
    assert gone.exit_code == 0, gone.output
    remaining = leaderboard_of(store, "iqa")
    assert "good/contrast" not in {row.label for table in remaining.tables for row in table.rows}
    assert [m.what for m in remaining.missing if "withdrawn" in m.reason] == ["good/contrast"]
    assert [line.decision for line in Ledger(store).lines()] == [
        "added",
        "accepted",
        "flagged",
        "accepted",
        "withdrawn",
    ]


def ranking_of(leaderboard: Leaderboard) -> str:
    return " ".join(ranking.claim for ranking in leaderboard.rankings)

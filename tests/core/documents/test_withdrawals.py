"""Results of a version in which a fault was found leave the tables, with the reason, and stay in the store."""

import csv
from pathlib import Path

from click.testing import CliRunner, Result

import imharness as ih
from imharness.cli import cli
from imharness.cli.commands import finished
from imharness.components.registry import installed
from imharness.documents.stored import read_leaderboard
from imharness.errors import UsageError
from imharness.results.store import Store

METRICS = ("l2", "mse", "mae")
RUN = ("run", "--track", "perceptual", "--dataset", "distorted-pairs[size=64]", "--limit", "3", "--device", "cpu")
WORDS = (*RUN, "--workers", "0", "--progress", "none", *(word for name in METRICS for word in ("--metric", name)))


def invoke(store: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--store", str(store)])


def refused(store: Path, *words: str) -> str:
    """Run a command that is refused, and return its message."""
    error = invoke(store, *words).exception
    assert isinstance(error, UsageError), error
    return str(error)


def ranked(store: Path) -> tuple[set[str], str]:
    """Return the ids of metrics in the tables, and what `harness results rank` prints."""
    printed = invoke(store, "results", "rank")
    assert printed.exit_code == 0, printed.output
    leaderboard = read_leaderboard(Store(store), "harness/perceptual")
    assert leaderboard is not None
    return {entry.id for entry in leaderboard.entries if entry.kind == "metric"}, printed.output


def in_rows(store: Path, folder: Path) -> set[str]:
    """Return the metrics in the exported rows, and check that a notebook and commands read rows of the same metrics."""
    assert invoke(store, "results", "export", "--rows", "--format", "csv", "--to", str(folder)).exit_code == 0
    metrics, result = set[str](), ih.load(store)
    for file in folder.glob("*.csv"):
        with file.open(newline="") as rows:
            exported = {row.get("metric") or "" for row in csv.DictReader(rows)}
        step = file.stem.removeprefix("perceptual-")
        assert {metric or "" for metric in result.rows(step).get("metric", ("",))} == exported
        assert {task.labels.get("metric", "") for task in finished(store, "harness/perceptual", step)} == exported
        metrics |= exported - {""}
    return metrics


def test_a_version_leaves_the_tables_with_its_reason_and_comes_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert invoke(store, *WORDS, "--site", str(tmp_path / "site")).exit_code == 0
    version = installed().version("metric", "harness/mse")
    everyone, _ = ranked(store)
    assert everyone >= {f"harness/{name}" for name in METRICS}
    withdraw = ("results", "withdraw", "harness/mse", version)
    assert "say by --reason why" in refused(store, *withdraw)
    why = f"store {store} has no results of harness/mse version 0.0; it has version {version}"
    assert why in refused(store, *withdraw[:-1], "0.0", "--reason", "x")

    done = invoke(store, *withdraw, "--reason", "a sign was\nwrong")
    assert done.exit_code == 0, done.output
    tasks = len([record for _, record in Store(store).records() if "mse" in record.spec.describe()])  # type: ignore[union-attr]
    assert f"{tasks} tasks of harness/mse version {version}: withdrawn: a sign was wrong" in done.output
    metrics, printed = ranked(store)
    assert metrics == everyone - {"harness/mse"}
    assert f"left out: harness/mse version {version}, withdrawn: a sign was wrong" in printed
    assert invoke(store, "results", "verify").exit_code == 0
    assert in_rows(store, tmp_path / "rows") == {"harness/l2", "harness/mae"}, "they see what tables see"

    assert CliRunner().invoke(cli, ["results", "copy", str(store), str(tmp_path / "copy")]).exit_code == 0
    assert ranked(tmp_path / "copy")[0] == metrics
    again = invoke(store, *WORDS, "--site", str(tmp_path / "site"))
    assert again.exit_code == 0, again.output
    assert ranked(store)[0] == metrics, "a run computes nothing of it and ranks nothing of it"

    assert invoke(store, *withdraw, "--undo").exit_code == 0
    assert ranked(store)[0] == everyone
    assert in_rows(store, tmp_path / "again") == {f"harness/{name}" for name in METRICS}

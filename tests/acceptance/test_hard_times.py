"""Killed runs go on, and plugins that misbehave fail their own tasks only."""

import functools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.forked import Command
from tests.forking import WITHOUT_SITE
from tests.rows_of import files_of, rows_of

SMALL = """
name = "small"
description = "Two attacks, one network, a few small photographs."
batch_size = 8
time_limit_s = 300
[tracks."harness/iqa"]
select = { dataset = ["harness/severity-ladder[severities=[3],size=48]"], metric = ["embedded-cnn"], attack = ["ifgsm", "uap"], defense = ["none", "random-noise"] }
options = { samples = 2, fit_dataset = "harness/severity-ladder[severities=[3],size=48,split=train]", fit_images = 4, strengths = ["strong"] }
parameters."harness/uap" = { tile = 48, epochs = 1 }
"""  # noqa: E501


def finished(folder: Path) -> list[Path]:
    """Return the files of finished tasks in the store."""
    return files_of(folder / "store")


# how `acme/failing` fails -> what the run reports
FAILURES = {
    "raise": "acme/failing: ValueError: no luck today",
    "shape": "acme/failing[how=shape]: expected",
    "nan": "values are NaN",
    "exit": "the worker ended with code 3",
    "hang": "took longer than the time limit of 15 s",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def test_a_run_killed_at_any_moment_goes_on_and_ends_with_the_same_bytes(folder: Path, harness_here, no_site) -> None:
    words = ["run", "--all", "--profile", "small.toml", "--device", "cpu", "--json"]
    kills = 0
    for wanted, workers in ((2, "2"), (6, "1")):
        command = Command([*words, "--workers", workers], folder, folder / f"{wanted}.log")
        if command.wait(lambda wanted=wanted: len(finished(folder)) >= wanted):
            kills += command.kill("group")
        command.wait()
    assert kills, "the run ended before it could be killed"
    last, whole = (harness_here(*words, "--workers", "0", "--store", store, cwd=folder) for store in ("store", "whole"))
    assert last.returncode == whole.returncode == 0, last.stderr + whole.stderr
    facts = json.loads(last.stdout)
    assert facts["done"] == facts["tasks"]
    assert facts["reused"] >= 2
    assert json.loads(whole.stdout)["reused"] == 0
    assert rows_of(folder / "store") == rows_of(folder / "whole")


def test_an_interrupted_run_says_so_and_keeps_what_is_finished(folder: Path) -> None:
    words = ["run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "1"]
    command = Command(words, folder, folder / "log")
    assert command.wait(lambda: bool(finished(folder)))
    os.kill(command.pid, signal.SIGINT)
    command.wait(seconds=60)
    errors = command.log.read_text()
    assert command.code == 130
    assert "interrupted; everything finished is kept" in errors
    assert "Traceback" not in errors


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory, harness_forked) -> Callable[[str], tuple[dict, str]]:
    """Return a function: how a defense fails -> the facts and the errors of a run.

    One run has all failing defenses but the one that hangs, which has a run of its own.
    """

    @functools.cache
    def run(*hows: str) -> tuple[dict, str]:
        failing = ", ".join(f'"acme/failing[how={how}]"' for how in hows)
        text = SMALL.replace('"random-noise"]', f"{failing}]").replace('attack = ["ifgsm", "uap"]', "attack = []")
        if hows == ("hang",):
            text = text.replace("time_limit_s = 300", "time_limit_s = 15")
        folder = tmp_path_factory.mktemp("failing")
        (folder / "small.toml").write_text(text)
        workers = "2" if hows == ("hang",) else "1"  # both tasks that hang do so at once
        words = ["run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", workers, "--json"]
        result = harness_forked("-c", WITHOUT_SITE, *words, cwd=folder, packages=("acme-raising", "acme-broken"))
        assert result.returncode == 1, result.stderr
        return json.loads(result.stdout), result.stderr

    return lambda how: run("hang") if how == "hang" else run(*(how for how in FAILURES if how != "hang"))


@pytest.mark.parametrize("how", FAILURES)
def test_a_failing_plugin_fails_its_own_tasks_only(failed, how: str) -> None:
    facts, errors = failed(how)
    label = "acme/failing" if how == "raise" else f"acme/failing[how={how}]"
    failures = [line for address, line in facts["failed"].items() if re.search(rf"{re.escape(label)}(?!\[)", address)]
    assert failures
    assert all(FAILURES[how] in line for line in failures)
    assert all("acme/failing" in address for address in facts["failed"])
    assert facts["done"] == 3  # clean, and the two tasks of the baseline
    assert "left out acme-broken:acme_broken" in errors


def test_a_third_party_defense_stands_in_the_table(folder: Path, harness_forked) -> None:
    text = SMALL.replace('"random-noise"]', '"median-smoothing"]').replace('["ifgsm", "uap"]', '["ifgsm"]')
    (folder / "small.toml").write_text(text)
    words = ["run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "0", "--json"]
    result = harness_forked(*words, cwd=folder, packages=("acme-median-smoothing",))
    assert result.returncode == 0, result.stdout + result.stderr
    leaderboard = json.loads((folder / "store" / "leaderboards" / "harness--iqa.json").read_text())
    labels = {row["label"] for row in leaderboard["tables"][0]["rows"]}
    assert labels == {"harness/none", "acme/median-smoothing", "acme/median-smoothing[radius=2]"}
    assert "acme/median-smoothing[radius=2]" in (folder / "site" / "iqa.html").read_text()

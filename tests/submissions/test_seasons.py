"""A season by the commands of a maintainer: open, status, close, archive; and what a new entry has to compute."""

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.submissions.test_evidence import PROFILE

import imharness as ih
from imharness.cli import cli
from imharness.documents.seasons import season_of
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError, UsageError
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.session import Session
from imharness_submissions.ledger import Ledger
from imharness_submissions.planned import only_with

PERCEPTUAL = """
[tracks."harness/perceptual"]
select.dataset = ["harness/distorted-pairs[size=64]"]
select.metric = ["l2", "mse"]
"""
LATER = str((datetime.now(UTC) + timedelta(days=90)).date())


@pytest.fixture(autouse=True)
def tools() -> None:
    """Nothing of a stranger is run here: no sandbox is needed."""


def invoke(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def refused(*words: object) -> str:
    result = invoke(*words)
    assert isinstance(result.exception, UsageError), result.output
    (line,) = str(result.exception).splitlines()
    return line


def test_a_season_is_opened_computed_closed_and_archived(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PROFILE.replace('"jpeg", "flip", "random-noise"', '"flip"'))
    store, seed, archive = tmp_path / "store", tmp_path / "seed", tmp_path / "archive"
    where = ("--profile", tmp_path / "tiny.toml", "--secret", seed, "--store", store)
    assert "has no season" in refused("season", "status", "--store", store)
    assert "a later day" in refused("season", "open", "2027a", "--until", "2020-01-01", *where)
    assert invoke("season", "open", "2027a", "--until", LATER, *where, "--limit", 6).exit_code == 0
    assert re.fullmatch(r"[0-9a-f]{64}\n", seed.read_text())
    assert seed.stat().st_mode & 0o077 == 0
    assert "has the season 2027a" in refused("season", "open", "2027b", "--until", LATER, *where)

    close = ("season", "close", "--archive", archive, "--secret", seed, "--store", store)
    assert f"lasts until {LATER}" in refused(*close)
    assert "has no run" in refused(*close, "--reason", "a test")
    words = ("run", "--all", "--device", "cpu", "--workers", 0, "--progress", "none", "--store", store)
    whole = (*words, "--limit", 6, "--secret", seed, "--profile")
    assert "settings of harness/iqa are not those of the protocol" in refused(*whole, "quick")
    assert "--limit: season 2027a is computed on 6 images of each data set" in refused(*words, *where, "--limit", 5)
    assert "is computed on 6 images" in refused(*words, *where)
    assert "is computed with the seed" in refused(*words, "--profile", tmp_path / "tiny.toml", "--limit", 6)
    for option in ("--seed", "--dataset"):
        assert f"{option}: season 2027a is computed by its protocol alone" in refused(
            *whole, tmp_path / "tiny.toml", option, 1
        )
    with pytest.raises(UsageError, match="is computed with the seed of its secret split"):
        ih.run("quick", store=store)
    run = invoke(*whole, tmp_path / "tiny.toml")
    assert run.exit_code == 0, run.output
    status = invoke("season", "status", "--store", store)
    assert status.exit_code == 0, status.output
    assert re.search(r"open, (89|90) days left", status.output)  # midnight may have passed since
    facts = json.loads(invoke("season", "status", "--store", store, "--json").output)
    (track,) = facts["tracks"]
    assert facts["protocol changed since"] == "not compared: no profile that is installed is called tiny; it was a file"
    leaderboard = read_leaderboard(Store(store), track["track"])
    assert leaderboard is not None
    assert track["winners"] == "; ".join(f"{r.table}: {r.winner or 'none'}" for r in leaderboard.rankings)
    assert track["winners"]

    other = tmp_path / "other"
    other.write_text("ab" * 16)
    assert "is not that of season 2027a" in refused(
        *close[:-4], "--secret", other, "--store", store, "--reason", "a test"
    )
    done = invoke(*close, "--reason", "a test")
    assert done.exit_code == 0, done.output
    season = season_of(Store(archive))
    assert season is not None
    assert (season.name, season.revealed, season.reason) == ("2027a", seed.read_text().strip(), "a test")
    lines = (archive / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == sum(path.is_file() for path in archive.rglob("*")) - 1
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((archive / name).read_bytes()).hexdigest() == digest
    assert hashlib.sha256((archive / "SHA256SUMS").read_bytes()).hexdigest() in done.output
    assert invoke("results", "verify", "--store", archive).exit_code == 0
    with pytest.raises(UsageError, match="season 2027a was closed on"):
        Ledger(store).append("harness/flip", ("harness/flip",), "reproduced", "after the end")
    assert "is not empty" in refused(*close)
    again = invoke("season", "close", "--archive", tmp_path / "again", "--secret", seed, "--store", store)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "SHA256SUMS").read_text().splitlines() == lines
    assert season_of(Store(store)) == season


def test_a_season_of_one_track_is_computed_and_closed(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(PROFILE.replace('"jpeg", "flip", "random-noise"', '"flip"') + PERCEPTUAL)
    store, seed = tmp_path / "store", tmp_path / "seed"
    where = ("--profile", tmp_path / "two.toml", "--secret", seed, "--store", store)
    opening = ("season", "open", "2027a", "--until", LATER, *where, "--track")
    assert "profile tiny has no track harness/membership" in refused(*opening, "membership")
    assert invoke(*opening, "perceptual").exit_code == 0
    run = invoke("run", "--all", *where, "--device", "cpu", "--workers", 0, "--progress", "none")
    assert run.exit_code == 0, run.output
    assert Store(store).tracks() == ["harness/perceptual"]
    closing = ("season", "close", "--archive", tmp_path / "archive", *where[2:], "--reason", "a test")
    closed = invoke(*closing)
    assert closed.exit_code == 0, closed.output


def test_a_store_with_runs_of_another_split_opens_no_season(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PROFILE.replace('"jpeg", "flip", "random-noise"', '"flip"'))
    where = ("--profile", tmp_path / "tiny.toml", "--store", tmp_path / "store")
    run = invoke("run", "--all", *where, "--limit", 2, "--device", "cpu", "--workers", 0, "--progress", "none")
    assert run.exit_code == 0, run.output
    message = refused("season", "open", "a", "--until", LATER, "--secret", tmp_path / "seed", *where)
    assert "has runs of another split, profile or limit" in message


def test_a_damaged_season_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store" / "seasons").mkdir(parents=True)
    (tmp_path / "store" / "seasons" / "2027a.json").write_text('{"name": "2027a"}')
    with pytest.raises(DamagedError):
        season_of(Store(tmp_path / "store"))


def test_a_new_entry_costs_its_own_tasks_alone(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PROFILE)
    session = Session(Store(tmp_path / "store"), load_profile(str(tmp_path / "tiny.toml")), limit=12)
    (before,) = session.plan()
    (after,) = session.plan(further={"defense": ["harness/gaussian-blur"]})
    added = [after.tasks[key].spec for key in after.tasks.keys() - before.tasks.keys()]
    specs = [spec for spec in added if any(ref.id == "harness/gaussian-blur" for ref in spec.components.values())]
    assert len(added) == len(specs)
    assert sorted(spec.step for spec in specs) == ["attack", "defended", "evaluate", "evaluate", "purify"], (
        "one attack through it, its scores with and without that attack's knowledge, and its clean images"
    )
    assert before.tasks.keys() <= after.tasks.keys(), "what is there stays as it is"
    wanted = only_with(after, {"harness/gaussian-blur"}, lambda ref: ref.id == "harness/none")
    needed = wanted.tasks.keys() - before.tasks.keys()
    assert len(needed) == len(specs), "who submits it computes no more than that"

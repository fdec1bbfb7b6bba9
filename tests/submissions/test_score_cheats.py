"""Cheats on scores as packages: an entry that is flagged does not win until a person takes the flag away."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.submissions.conftest import MakeSubmission
from tests.submissions.test_honest import harness, leaderboard_of
from tests.submissions.test_run import entry
from tests.submissions.test_tracks import MEMBERSHIP, profile_of

from imharness.cli import cli
from imharness.documents.rankings import Ranking

CHEATS = Path(__file__).parents[1] / "blind"
OFFER = """

from imharness.components.hookspecs import hookimpl


@hookimpl
def components():
    return [{}()]
"""
MakePackage = Callable[..., Path]


@pytest.fixture
def package(submission: MakeSubmission, tmp_path: Path) -> MakePackage:
    """Return a function: module of tests/blind, one of its classes, entries -> a submission's folder."""

    def make(module: str, offered: str, entries: str) -> Path:
        source = tmp_path / "source" / f"{module}.py"
        source.parent.mkdir()
        source.write_text((CHEATS / source.name).read_text() + OFFER.format(offered))
        return submission(str(source.with_suffix("")), entries)

    return make


def test_a_denormal_release_is_flagged_and_wins_only_if_a_person_takes_the_flag_away(
    package: MakePackage, tmp_path: Path, no_site: None
) -> None:
    store, label = tmp_path / "store", "acme/odd-release[how=small]"
    where = ("--store", store, "--site", tmp_path / "site")
    folder = package("membership_cheats", "OddRelease", entry("acme/odd-release") + 'parameters = { how = "small" }\n')
    options = ("--profile", profile_of(tmp_path, MEMBERSHIP), "--device", "cpu", "--limit", "4", "--workers", "0")
    done = CliRunner().invoke(cli, [str(word) for word in ("submissions", "run", folder, *where, *options)])
    assert done.exit_code == 1
    assert "divide them by their sum" in done.output

    def ranking() -> Ranking:
        return leaderboard_of(store, "membership").rankings[0]

    def flagged() -> str:
        return " ".join(ranking().places[label].flags)

    assert "flagged: acme/odd-release[how=small]: gives probabilities of sum 1" in flagged()
    harness("run", "--all", *where, *options, "--progress", "none")
    assert "gives probabilities of sum 1" in flagged()
    assert not ranking().may_be_best
    harness("submissions", "decide", folder.name, "added", "--reason", "the contract asks for it since today", *where)
    assert not flagged()
    assert ranking().may_be_best == (label,)

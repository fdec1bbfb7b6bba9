"""Attacks that are handed in where images prove nothing: from a package to a worse value of the entry that it broke."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.conftest import Harness
from tests.forking import WITHOUT_SITE
from tests.submissions.conftest import MakeSubmission, wheel_of
from tests.submissions.test_evidence import invoke, value
from tests.submissions.test_run import entry
from tests.submissions.test_tracks import profile_of

from imharness.cli import cli
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.results.store import Store
from imharness_submissions.ledger import Ledger

PACKAGE = Path(__file__).parent / "tracks" / "breaker.py"
MEMBERSHIP = """
[tracks."harness/membership"]
select = { dataset = ["harness/digits"], model = ["harness/mlp"], defense = ["plain-training", "label-smoothing"], \
evaluator = ["correctness"] }
options = { splits = 1, part = 150, epochs = 30, references = 16, copies = 1, matched = false }
parameters."harness/mlp" = { hidden = [64] }
"""
RECONSTRUCTION = """
[tracks."harness/reconstruction"]
select = { dataset = ["harness/thumbnails[size=20]"], model = ["harness/lenet"], attack = ["idlg"], \
defense = ["plain-gradient"], metric = ["psnr"] }
options = { epochs = 1, batch_size = 64, learning_rate = 0.05, judge = "harness/convnet8[width=2]", attacked = 1, \
gradients_only = ["harness/idlg"] }
parameters."harness/idlg" = { iterations = 20 }
"""


def sample_leaderboard(store: Path, track: str) -> Leaderboard:
    result = read_leaderboard(Store(store), f"harness/{track}")
    assert result is not None
    return result


@pytest.mark.parametrize("track", ["membership", "reconstruction"])
def test_images_are_refused_in_one_line_that_says_how_an_attack_is_handed_in(track: str, tmp_path: Path) -> None:
    done = invoke("evidence", "new", tmp_path / "e", "--track", track, "--entry", "x", "--store", tmp_path / "store")
    assert str(done.exception) == (
        f"harness/{track} takes no images as evidence: hand in the attack. "
        "`harness submissions new NAME --wheel FILE` starts a submission of the package that holds it."
    )
    assert not (tmp_path / "e").exists()


def test_an_evaluator_lowers_values_once_it_is_accepted(
    submission: MakeSubmission, tmp_path: Path, no_site: None
) -> None:
    """As in a season, the whole leaderboard is of one secret split. Its only evaluator before is `correctness`."""
    (tmp_path / "seed").write_text("5a" * 32 + "\n")
    profile, store = profile_of(tmp_path, MEMBERSHIP), tmp_path / "store"
    where = ("--store", store, "--site", tmp_path / "site")
    how = (*where, "--profile", profile, "--secret", tmp_path / "seed", "--device", "cpu", "--workers", 0)

    def done(*words: object) -> Result:
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code == 0, result.output + str(result.exception)
        return result

    done("run", "--all", *how, "--progress", "none")
    before = sample_leaderboard(store, "membership")
    folder = submission("../submissions/tracks/breaker", entry("breaker/loss", "evaluator"))
    done("submissions", "run", folder, *how)
    pending = sample_leaderboard(store, "membership")
    entries = ("harness/plain-training", "harness/label-smoothing")
    assert [value(pending, label) for label in entries] == [value(before, label) for label in entries], (
        "shown, and not counted"
    )
    done("submissions", "decide", "breaker", "accepted", "--reason", "read its code", *where)
    after = sample_leaderboard(store, "membership")
    broken = [label for label in entries if value(after, label) > value(before, label) + 0.01]
    assert broken, [(value(before, label), value(after, label)) for label in entries]
    places = after.rankings[0].places
    assert all(places[label].broken_by["breaker/loss"] > 0 for label in broken)
    assert [line.decision for line in Ledger(store).lines()] == ["added", "accepted"]


def test_an_attack_that_gets_the_network_is_installed_and_accepted_by_its_id(
    submission: MakeSubmission, tmp_path: Path, harness_forked: Harness
) -> None:
    profile, store = profile_of(tmp_path, RECONSTRUCTION), tmp_path / "store"
    where = ("--store", store, "--site", tmp_path / "site")
    how = (*where, "--profile", profile, "--device", "cpu", "--workers", 0, "--limit", 8, "--progress", "none")
    folder = submission("../submissions/tracks/breaker", entry("breaker/descent", "attack"))
    refused = invoke("submissions", "run", folder, *where, "--profile", profile)
    assert refused.exit_code != 0
    message = " ".join(str(refused.exception).split())
    assert "breaker/descent" in message
    assert "`harness submissions decide ID accepted`" in message

    with zipfile.ZipFile(wheel_of(PACKAGE, tmp_path)) as wheel:
        wheel.extractall(tmp_path / "site-packages")

    def done(*words: object) -> None:
        ran = harness_forked("-c", WITHOUT_SITE, *map(str, words), cwd=tmp_path, packages=("breaker",))
        assert ran.returncode == 0, ran.stdout + ran.stderr

    label = "harness/lenet + harness/plain-gradient"
    done("run", "--all", *how)
    before = next(row for row in sample_leaderboard(store, "reconstruction").tables[0].rows if row.label == label)
    assert before.number("worst") is None, "no attack of the leaderboard converged"
    done("run", "--track", "reconstruction", "--attack", "breaker/descent", *how)
    pending = next(row for row in sample_leaderboard(store, "reconstruction").tables[0].rows if row.label == label)
    assert pending.number("worst") is None, "shown, and not counted"
    done("submissions", "decide", "breaker/descent", "accepted", "--reason", "read its code", *where)
    after = sample_leaderboard(store, "reconstruction")
    assert value(after, label) > 20, "dB: nearer than any grey image, which has 11"
    assert after.rankings[0].places[label].broken_by == {"breaker/descent": 1.0}

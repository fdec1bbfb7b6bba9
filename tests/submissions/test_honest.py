"""Honest packages on a fresh store, by the commands of a maintainer: no flag, no error, ranked beside the baselines."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conftest import TEMPLATE, without_site
from tests.submissions.conftest import METADATA, PROFILE, MakeSubmission, zipped
from tests.submissions.test_run import entry
from tests.submissions.test_tracks import MEMBERSHIP, PERCEPTUAL, profile_of

from imharness.cli import cli
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.results.store import Store
from imharness_submissions.ledger import Ledger
from imharness_submissions.report import SubmissionReport

NAME = "acme-median-smoothing"
RECONSTRUCTION = """
[tracks."harness/reconstruction"]
select = { dataset = ["harness/thumbnails[size=16]"], model = ["harness/lenet"], attack = ["idlg"], \
defense = ["plain-gradient"], metric = ["psnr"] }
options = { epochs = 1, batch_size = 64, learning_rate = 0.05, judge = "harness/convnet8[width=2]", attacked = 1, \
gradients_only = ["harness/idlg"] }
parameters."harness/idlg" = { iterations = 120 }
"""
"""Settings in which gradients are inverted within seconds: a model is ranked only where an attack converged."""


def harness(*words: str | Path) -> None:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def template_wheel(folder: Path) -> Path:
    """Pack the template as its build does: the module, and metadata with what `pyproject.toml` asks for."""
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    module = NAME.replace("-", "_")
    path, facts = folder / f"{module}-{project['version']}-py3-none-any.whl", f"{module}-{project['version']}.dist-info"
    needs = "".join(f"Requires-Dist: {wanted}\n" for wanted in project["dependencies"])
    points = "".join(f"{name} = {target}\n" for name, target in project["entry-points"]["imharness"].items())
    contents = {
        f"{module}.py": (TEMPLATE / f"{module}.py").read_text(),
        f"{facts}/METADATA": METADATA.replace("1.0", project["version"]).format(NAME)
        + f"License-Expression: {project['license']}\n{needs}",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{facts}/entry_points.txt": f"[imharness]\n{points}",
    }
    return zipped(path, contents)


def computed(folder: Path, profile: Path, store: Path, limit: int) -> SubmissionReport:
    """Run a submission on a new store, and then the baselines; return the report of the submission."""
    where = ("--store", store, "--site", store.parent / "site", "--profile", profile)
    where = (*where, "--device", "cpu", "--limit", str(limit), "--workers", "0")
    with without_site():
        harness("submissions", "run", folder, *where)
    harness("run", "--all", *where, "--progress", "none")
    stored = json.loads((store / "submissions" / f"{folder.name}.json").read_text())
    report = SubmissionReport.model_validate(stored["report"])
    assert report.flags() == ()
    assert report.unavailable == ()
    assert report.tasks
    assert [line.decision for line in Ledger(store).lines()] == ["added"]
    return report


def leaderboard_of(store: Path, track: str) -> Leaderboard:
    leaderboard = read_leaderboard(Store(store), f"harness/{track}")
    assert leaderboard is not None
    return leaderboard


@pytest.mark.usefixtures("described_once")
def test_the_template_is_ranked_beside_the_baselines(tmp_path: Path) -> None:
    profile, store = tmp_path / "tiny.toml", tmp_path / "store"
    profile.write_text(PROFILE.replace('["none"]', '["none", "jpeg", "gaussian-blur"]'))
    harness("submissions", "new", NAME, "--wheel", template_wheel(tmp_path), "--dir", tmp_path / "submissions")
    folder = tmp_path / "submissions" / NAME
    manifest = folder / "submission.toml"
    manifest.write_text(manifest.read_text().replace("you@example.org", "me@acme.dev"))
    harness("submissions", "validate", folder)
    report = computed(folder, profile, store, 12)
    labels = {"acme/median-smoothing", "acme/median-smoothing[radius=2]"}
    assert set(report.entries) == labels
    (ranking,) = leaderboard_of(store, "iqa").rankings
    assert labels | {"harness/none", "harness/jpeg", "harness/gaussian-blur"} == ranking.places.keys()
    assert [label for label, position in ranking.places.items() if position.flags or not position.complete] == []


def numbers(leaderboard: Leaderboard, table: str, name: str) -> set[str]:
    """Return the columns in which rows with a component of this name have a number."""
    rows = [
        row for candidate in leaderboard.tables if candidate.id == table for row in candidate.rows if name in row.label
    ]
    return {column for row in rows for column, value in row.values.items() if value.value is not None}


PLACED = {"rank", "behind", "gain", "p"}
"""Columns that a control, such as no defense, does not have, or that the best entry does not have."""


BESIDE = {
    "good/contrast": ("metric", "iqa", "distortion", "achieved", "harness/embedded-cnn"),
    "good/all-evidence": ("evaluator", "membership", "evaluators", "accuracy", "harness/confidence"),
    "good/noisy-gradients": ("defense", "reconstruction", "ranking", "worst", "harness/plain-gradient"),
    "good/bounded": ("metric", "perceptual", "attacked", "moved-4", "harness/psnr"),
}
"""Entry -> its kind and track, and a table and column in which both it and a baseline have a number."""


def test_honest_entries_of_other_kinds_stand_beside_the_baselines(submission: MakeSubmission, tmp_path: Path) -> None:
    """One package of two modules has an entry for each track; paths are relative to tests/sandbox."""
    tracks = (PROFILE, MEMBERSHIP, RECONSTRUCTION, PERCEPTUAL)
    entries = "".join(entry(id, BESIDE[id][0]) for id in BESIDE)
    stranger, contrast = (f"../submissions/tracks/{module}" for module in ("stranger", "contrast"))
    folder = submission(stranger, entries, contrast)
    profile = profile_of(tmp_path, *(text[text.index("[tracks") :] for text in tracks))
    computed(folder, profile, tmp_path / "store", 12)
    for id, (_, track, table, column, baseline) in BESIDE.items():
        leaderboard = leaderboard_of(tmp_path / "store", track)
        assert column in numbers(leaderboard, table, baseline)
        columns, beside = (set(numbers(leaderboard, table, label)) - PLACED for label in (id, baseline))
        assert columns == beside, id
        places = {label: position for ranking in leaderboard.rankings for label, position in ranking.places.items()}
        assert [label for label, position in places.items() if position.flags or not position.complete] == []

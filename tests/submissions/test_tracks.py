"""Membership, reconstruction and perceptual distances: strangers' components run in the sandbox as those of iqa do."""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.submissions.conftest import MakeSubmission
from tests.submissions.test_run import entry, silent

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.documents.stored import read_leaderboard
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.executor import Preparation, open_executor
from imharness.running.sweep import execute
from imharness.testing.conformance import components_of
from imharness_submissions.commands.submissions import submissions
from imharness_submissions.report import SubmissionReport
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission
from imharness_submissions.sandbox.calls import STATE

HERE = Path(__file__).parent
MEMBERSHIP = """
[tracks."harness/membership"]
select = { dataset = ["harness/digits"], model = ["harness/mlp"], defense = ["plain-training"], \
evaluator = ["confidence"] }
options = { splits = 1, part = 40, epochs = 2, references = 3, copies = 1 }
parameters."harness/mlp" = { hidden = [16] }
"""
RECONSTRUCTION = """
[tracks."harness/reconstruction"]
select = { dataset = ["harness/thumbnails[size=20]"], model = ["harness/convnet8"], attack = ["invgrad"], \
defense = ["plain-gradient"], metric = ["psnr"] }
options = { epochs = 1, batch_size = 64, learning_rate = 0.05, judge = "harness/convnet8[width=2]" }
parameters."harness/convnet8" = { width = 2 }
parameters."harness/invgrad" = { steps = 8 }
"""
PERCEPTUAL = """
[tracks."harness/perceptual"]
select = { dataset = ["harness/severity-ladder[severities=[2,4],size=48]"], metric = ["psnr"], attack = ["ifgsm"] }
options = { attacked_images = 4, radii = [4] }
parameters."harness/ifgsm" = { iterations = 2 }
"""
ENTRIES = (
    entry("good/shaken")
    + entry("good/all-evidence", "evaluator")
    + entry("good/noisy-gradients")
    + entry("good/blended")
    + entry("good/blurred", "metric")
)
LIMIT = 4


def profile_of(tmp_path: Path, *tracks: str) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text('name = "tiny"\ndescription = "Tracks beside iqa."\n' + "".join(tracks))
    return path


def here(facts: Mapping[str, Any]) -> Preparation:
    """Give a worker the same components in its own process."""
    spec = importlib.util.spec_from_file_location("stranger", HERE / "tracks" / "stranger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stranger"] = module
    spec.loader.exec_module(module)
    origin = Provenance("stranger", "1.0")
    return Preparation([Registered(component, "stranger", origin) for component in components_of(module)])


def computed_here(profile: Path, root: Path) -> dict[str, str]:
    """Compute all tasks of a profile with the components in this process; address -> key."""
    chosen, offered = load_profile(str(profile)), here({}).components
    registry, store = installed().joined(offered), Store(root)
    store.prepare()
    graphs = []
    for name, settings in chosen.tracks.items():
        components = [e.component for e in offered if e.component.kind in settings.select]
        further = {kind: [c.label for c in components if c.kind == kind] for kind in {c.kind for c in components}}
        graphs.append(plan_track(name, chosen, registry, further=further, seed=0, limit=LIMIT))
    name = f"{__name__}:here"
    outcome = execute(graphs, store, lambda: open_executor(root, devices=["cpu"], workers=0, prepare=[(name, {})]))
    assert not outcome.failed
    return {f"{g.track.info.id} {task.address}": key for g in graphs for key, task in g.tasks.items()}


def results(store: Store, key: str) -> dict[str, np.ndarray]:
    """Return rows and arrays; an evaluator's rows in an order that does not depend on the task's key."""
    record = store.record(key)
    assert record is not None
    columns = dict(store.rows(record))
    if record.spec.step in ("evaluate", "unseen"):
        order = np.argsort(columns["row"])
        columns = {name: values[order] for name, values in columns.items()}
    return {**columns, **store.arrays(record)}


def test_components_of_every_track_give_in_two_workers_what_they_give_in_this_process(
    submission: MakeSubmission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_site: None
) -> None:
    """Without a secret: with one, random draws and the splits that evaluators see differ by package."""
    monkeypatch.setattr("imharness_submissions.run.secret_of", lambda store: "")
    by_references = MEMBERSHIP.replace('["confidence"]', '["confidence", "rmia"]')
    profile = profile_of(tmp_path, by_references, RECONSTRUCTION, PERCEPTUAL)
    folder, root = submission("../submissions/tracks/stranger", ENTRIES), tmp_path / "store"
    line = ["run", str(folder), "--store", str(root), "--site", str(tmp_path / "site"), "--profile", str(profile)]
    done = CliRunner().invoke(
        submissions, [*line, "--workers", "2", "--device", "cpu", "--limit", str(LIMIT), "--json"]
    )
    assert done.exit_code == 0, done.output
    report = SubmissionReport.model_validate(json.loads((root / "submissions" / "stranger.json").read_text())["report"])
    assert report.flags() == ()
    assert not report.failed
    store, other = Store(root), Store(tmp_path / "here")
    keys = computed_here(profile, tmp_path / "here")
    steps = set()
    for task in report.tasks:
        record = store.record(task.key)
        assert record is not None
        assert record.isolation.startswith("bubblewrap")
        actual, wanted = results(store, task.key), results(other, keys[task.address])
        assert wanted
        assert actual.keys() == wanted.keys()
        for name, values in wanted.items():
            np.testing.assert_array_equal(actual[name], values, err_msg=f"{task.address}: {name}")
        steps.add(record.spec.step)
    assert steps == {
        "release",
        "release_references",
        "evaluate",
        "unseen",
        "train",
        "reconstruct",
        "leakage",
        "guess",
        "recognise",
        "distance",
        "attack",
    }
    labels = {
        track: {row.label for t in leaderboard.tables for row in t.rows}
        for track in ("membership", "reconstruction", "perceptual")
        if (leaderboard := read_leaderboard(store, f"harness/{track}")) is not None
    }
    assert {"good/shaken", "good/all-evidence"} <= labels["membership"]
    assert {"harness/convnet8[width=2] + good/blended", "harness/convnet8[width=2] + good/noisy-gradients"} <= labels[
        "reconstruction"
    ]
    assert "good/blurred" in labels["perceptual"]


CHEATS = {
    "evil/own-dice": ("defense", STATE),
    "evil/decoys": ("defense", "treats each row alone"),
    "evil/steep-nowhere": ("metric", "not the function's own and misleads attacks"),
    "evil/lends-a-gradient": ("metric", "misleading gradients: along random"),
}
"""Cheats of the other tracks, one of membership, one of reconstruction and two of distances: kind, and what is said."""


def test_a_package_that_cheats_in_another_track_is_stopped_and_named(
    submission: MakeSubmission, tmp_path: Path
) -> None:
    """A distance that lends the gradient of another is named by queries on data."""
    entries = "".join(entry(id, kind) for id, (kind, _) in CHEATS.items())
    hostile = [f"../submissions/hostile/{name}" for name in ("own_dice", "decoys", "steep_nowhere")]
    folder = submission(hostile[0], entries, *hostile[1:], "blind/lends_a_gradient")
    profile = load_profile(str(profile_of(tmp_path, MEMBERSHIP, RECONSTRUCTION, PERCEPTUAL)))
    flags = run_submission(Run(folder, Store(tmp_path / "store"), profile, limit=2), silent).flags()
    for id, (_, message) in CHEATS.items():
        assert any(message in flag and id in flag for flag in flags), (id, flags)

"""Evaluators that know the public split: they are right there, and know nothing of the split of a store's secret."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.submissions.conftest import HOSTILE, MakeSubmission
from tests.submissions.test_run import entry, silent
from tests.submissions.test_tracks import computed_here, profile_of

from imharness.cli.stores import copy
from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.planning.secret import OPTION, digest_of
from imharness.results.store import Store
from imharness.running.pages import build_site
from imharness_submissions.evaluator_audit import chance_level
from imharness_submissions.report import ChanceLevel
from imharness_submissions.reproducing import reproduce
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission
from imharness_submissions.store_secret import FILE, known_secret, secret_of

PROFILE = """
[tracks."harness/membership"]
select = { dataset = ["harness/digits"], model = ["harness/mlp"], defense = ["plain-training", "label-smoothing"], \
evaluator = ["confidence"] }
options = { splits = 1, part = 150, epochs = 4, references = 16, copies = 1, matched = false }
parameters."harness/mlp" = { hidden = [16] }
"""


def package(name: str, tmp_path: Path, profile: Path) -> Path:
    """Write the module of a package; return its path without the ending.

    The module `remembers_outputs` gets the outputs of the public target, which are computed here.
    """
    source = HOSTILE.parent / "submissions" / "hostile" / f"{name}.py"
    text = source.read_text()
    if name == "remembers_outputs":
        keys, store = computed_here(profile, tmp_path / "home"), Store(tmp_path / "home")
        (key,) = (
            key
            for address, key in keys.items()
            if " train " in address and "role=target" in address and "defense=harness/plain-training" in address
        )
        record = store.record(key)
        assert record is not None
        outputs, member = store.arrays(record)["outputs"].round(5), store.rows(record)["member"]
        text = text.replace(
            "MEMBERS, OTHERS = [], []", f"MEMBERS, OTHERS = {outputs[member].tolist()}, {outputs[~member].tolist()}"
        )
    (tmp_path / source.name).write_text(text)
    return tmp_path / name


def computed(run: Run) -> tuple[dict[str, str], list[ChanceLevel]]:
    """Compute the tasks of a run, without checks and tables; return address -> key, and the tests against chance."""
    try:
        graphs = run.plan()
        outcome = run.compute(graphs)
    finally:
        run.opened.guest.kill()
    assert not outcome.failed
    keys = {f"{graph.track.info.id} {task.address}": key for graph in graphs for key, task in graph.tasks.items()}
    return keys, list(chance_level(run.evaluators, graphs, outcome, run.store))


def accuracies(store: Store, keys: Mapping[str, str], id: str) -> dict[str, float]:
    """Return the balanced accuracy in each task of an evaluator, by its address."""
    accuracies_by_address = {}
    for address, key in keys.items():
        if id not in address:
            continue
        record = store.record(key)
        assert record is not None
        rows = store.rows(record)
        guesses, member = rows["score"] >= 0, rows["member"]
        accuracies_by_address[address] = float((guesses[member].mean() + (~guesses[~member]).mean()) / 2)
    return accuracies_by_address


def undefended(results: dict[str, float]) -> float:
    """Return the accuracy against the undefended model."""
    return next(v for k, v in results.items() if " evaluate " in k and "plain-training" in k and "adaptive=True" in k)


@pytest.mark.usefixtures("described_once")
def test_an_evaluator_that_knows_the_public_split_learns_nothing(
    submission: MakeSubmission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, ids = profile_of(tmp_path, PROFILE), ("evil/reads-halves", "evil/remembers-outputs")
    modules = [str(package(name, tmp_path, profile)) for name in ("reads_halves", "remembers_outputs")]
    folder = submission(modules[0], "".join(entry(id, "evaluator") for id in ids), modules[1])

    with monkeypatch.context() as patch:
        patch.setattr("imharness_submissions.run.secret_of", lambda store: "")
        store = Store(tmp_path / "public")
        public = run_submission(Run(folder, store, load_profile(str(profile))), silent)
    assert not public.failed
    results = [accuracies(store, {task.address: task.key for task in public.tasks}, id) for id in ids]
    assert [undefended(result) > 0.95 for result in results] == [True, True], "they know the public split"
    flags = public.flags()
    assert any("knows the rows without the model" in flag and ids[0] in flag for flag in flags), (
        public.chance_level_steps
    )
    store = Store(tmp_path / "store")
    hidden, guesses = computed(Run(folder, store, load_profile(str(profile))))
    results = [accuracies(store, hidden, id) for id in ids]
    assert all(result and max(result.values()) < 0.65 for result in results), results
    assert guesses
    assert not any(guess.knows for guess in guesses)


@pytest.mark.usefixtures("described_once")
def test_the_split_of_an_evaluator_is_that_of_the_store_and_first_party_numbers_stay(
    submission: MakeSubmission, tmp_path: Path
) -> None:
    profile, root = profile_of(tmp_path, PROFILE), tmp_path / "store"
    folder = submission("../submissions/tracks/stranger", entry("good/all-evidence", "evaluator"))
    store, chosen = Store(root), load_profile(str(profile))
    report = run_submission(Run(folder, store, chosen), silent)
    assert report.flags() == ()
    seed, keys = known_secret(store), {task.key for task in report.tasks}
    assert secret_of(store) == seed != secret_of(Store(tmp_path / "other"))
    for key in store.all_keys():
        record = store.record(key)
        assert record is not None
        assert record.spec.options[OPTION] == digest_of(seed)
    public = plan_track("harness/membership", chosen, installed(), seed=0)
    assert {task.spec.split for task in public.tasks.values()} == {""}, "what the harness brings keeps its split"
    build_site(str(root), tmp_path / "site")
    copy(store, Store(tmp_path / "copied"))
    assert not (tmp_path / "copied" / FILE).exists()
    places = (root, tmp_path / "site", tmp_path / "copied")
    for path in (p for folder in places for p in folder.rglob("*") if p.is_file() and p != root / FILE):
        assert seed.encode() not in path.read_bytes(), path
    assert all(
        task.holds
        for task in reproduce(
            "stranger", store, sample=2, tolerance=1e-6, seed=0, device="cpu", trusted=False, advance=lambda a, b: None
        )
    )
    # Another store has another secret, so that every task has another key there.
    elsewhere = Run(folder, Store(tmp_path / "other"), chosen)
    planned = {key for graph in elsewhere.plan() for key in graph.tasks}
    elsewhere.opened.guest.kill()
    assert planned
    assert not keys & planned
    # A third store with the secret of the first one has the same keys, and its rows are the same.
    third = Store(tmp_path / "third")
    third.prepare()
    (tmp_path / "third" / FILE).write_bytes((root / FILE).read_bytes())
    same, _ = computed(Run(folder, third, chosen))
    assert {key for address, key in same.items() if "good/all-evidence" in address} == keys
    for key in keys:
        first, second = store.record(key), third.record(key)
        assert first is not None
        assert second is not None
        for name, values in store.rows(first).items():
            np.testing.assert_array_equal(values, third.rows(second)[name])

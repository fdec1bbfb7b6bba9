"""A run that names missing or unknown components ends before it begins, in one line, with a status that is not 0."""

from pathlib import Path

import pytest
from tests.conftest import Harness

from imharness.cli.planning import dry_run_report
from imharness.components.registry import installed
from imharness.errors import Unavailable, UsageError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile
from imharness.planning.selection import refuse_missing
from imharness.results.store import Store
from imharness.results.sweeps import Missing
from imharness.running.schedule.estimates import Times


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ("--attack", "foolbox:LinfPGD"),
            1,
            "error: the package foolbox is not installed; get it with: pip install 'image-privacy-harness[foolbox]'",
        ),
        (("--dataset", "kadid10k"), 1, "error: "),
        (("--attack", "foolbocks:LinfPGD"), 2, "usage: no attack is called 'foolbocks:LinfPGD'"),
        (
            ("--evaluator", "neural"),
            2,
            "usage: --evaluator: profile embedded has none to choose from in harness/iqa",
        ),
        (
            ("--attack", "ifgsm", "--attack", "!harness/ifgsm"),
            2,
            "usage: --attack: harness/ifgsm is both asked for and left out",
        ),
        (
            ("--attack", "ifgsm[radius=0.05]", "--attack", "!ifgsm"),
            2,
            "usage: --attack: harness/ifgsm[radius=0.05] is both asked for and left out",
        ),
    ],
)
def test_what_is_missing_ends_the_run_in_one_line(
    words: tuple[str, ...],
    status: int,
    message: str,
    tmp_path: Path,
    empty_places: Path,
    harness_here: Harness,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("imharness_vision.libraries.find_spec", lambda name: None)
    ran = harness_here(
        "run", "--track", "iqa", *words, "--metric", "embedded-cnn", "--limit", "2", "--workers", "0", cwd=tmp_path
    )
    assert ran.returncode == status, ran.stderr
    assert message in ran.stderr
    assert "0 of 0 tasks" not in ran.stdout
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("graph", "line"),
    [
        (Graph(installed().track("iqa"), ""), "there is no task with all that was asked for"),
        (
            Graph(
                installed().track("iqa"), "", missing={"clean": Missing(what="a/m", reason="no weights", remedy="x")}
            ),
            "nothing can be computed: every task needs something that is unavailable",
        ),
    ],
)
def test_a_dry_run_of_nothing_says_why(
    graph: Graph, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run_report([graph], Store(tmp_path), Times("cpu"), 1, False, lambda: [graph])
    assert line in capsys.readouterr().out


def test_a_profile_names_the_owners_of_its_tracks(tmp_path: Path, harness_here: Harness) -> None:
    select = 'dataset = ["severity-ladder"]\nmetric = ["embedded-cnn"]\nattack = ["ifgsm"]\ndefense = ["none"]\n'
    (tmp_path / "own.toml").write_text(f'name = "own"\ndescription = "Small."\n[tracks.iqa.select]\n{select}')
    ran = harness_here("run", "--all", "--profile", "own.toml", "--dry-run", cwd=tmp_path)
    assert ran.returncode == 2, ran.stderr
    assert "'iqa' needs its owner: write it like harness/iqa" in ran.stderr


def test_a_run_without_any_task_says_what_keeps_them_away() -> None:
    track = installed().track("iqa")
    with pytest.raises(UsageError, match="harness/iqa has no task with all that was asked for"):
        refuse_missing([Graph(track, "")], installed(), {})
    gap = Missing(what="harness/koncept512", reason="no weights", remedy="harness assets get koncept512")
    with pytest.raises(Unavailable, match=r"koncept512 is missing \(no weights\); get it with: harness assets get"):
        refuse_missing([Graph(track, "", missing={"clean": gap})], installed(), {})


@pytest.mark.parametrize(
    ("name", "gone", "parameters", "refused"),
    [
        ("jpeg[*]", {10}, {}, False),
        ("jpeg[*]", {50}, {}, False),
        ("jpeg[*]", {10, 30, 50, 70, 90}, {}, True),
        ("jpeg[quality=10]", {10}, {}, True),
        ("jpeg", {30}, {"harness/jpeg": {"quality": 30}}, True),
    ],
)
def test_a_name_is_missing_if_all_that_it_means_is(
    name: str, gone: set[int], parameters: dict, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several variants, those that are here are computed, and the others are named as missing.

    jpeg[*] means the qualities 10, 30, 50, 70 and 90; those in `gone` are not available. The `parameters` of a
    profile apply to a name without parameters.
    """

    def require(jpeg) -> None:
        if jpeg.quality in gone:
            raise Unavailable("no tables", "harness assets get tables")

    monkeypatch.setattr(type(installed().one("defense", "jpeg")), "require", require)
    select = {"dataset": ["severity-ladder"], "metric": ["embedded-cnn"], "attack": ["ifgsm"], "defense": ["none"]}
    track_settings = {"select": select, "parameters": parameters}
    only = {"defense": [name]}
    profile = Profile(name="test", description="", tracks={"harness/iqa": track_settings})
    graph = plan_track("harness/iqa", profile, installed(), only=only)
    if refused:
        with pytest.raises(Unavailable, match="no tables"):
            refuse_missing([graph], installed(), only)
        return
    refuse_missing([graph], installed(), only)
    labels = {q: "harness/jpeg" if q == 50 else f"harness/jpeg[quality={q}]" for q in (10, 30, 50, 70, 90)}
    computed = {task.spec.components["defense"].label for task in graph.tasks.values() if task.spec.step == "evaluate"}
    assert computed == {label for quality, label in labels.items() if quality not in gone}
    assert {gap.what for gap in graph.missing.values()} == {labels[quality] for quality in gone}

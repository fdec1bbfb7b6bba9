"""`harness results list`: short names, filters and pages; wrong names and absent stores are answered in one line."""

from pathlib import Path

import pytest

from imharness.cli import results
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 2 metrics by 3 attacks in two steps; one task failed."""
    working_folder = tmp_path_factory.mktemp("names")
    store = Store(working_folder / "store")
    store.prepare()
    for metric in ("harness/mse", "acme/sharp"):
        for attack in ("harness/jpeg[quality=30]", "harness/ifgsm", "acme/ifgsm"):
            for step in ("attack", "evaluate"):
                labels = {"metric": metric, "attack": attack}
                refs = {
                    role: ComponentRef(
                        kind=role,
                        id=label.partition("[")[0],
                        version="1",
                        label=label,
                        parameters={"quality": 30} if "[" in label else {},
                    )
                    for role, label in labels.items()
                }
                spec = TaskSpec(
                    track="harness/iqa" if metric == "harness/mse" else "acme/own",
                    step=step,
                    version="1",
                    components=refs,
                    options={},
                    limit=None,
                    seed=0,
                    needs={},
                )
                status = "failed" if (metric, attack, step) == ("harness/mse", "acme/ifgsm", "attack") else "done"
                record = TaskRecord(
                    key=digest(spec.identity()),
                    spec=spec,
                    status=status,
                    started="2026-01-01",
                    seconds=1.0,
                    device="cpu",
                    versions={},
                )
                store.commit(record, {}, {})
    return working_folder


def listed(harness_here, folder: Path, *words: str) -> list[list[str]]:
    """Return the words of each line of `harness results list`, without its title and its header.

    The columns are track, step, status, seconds and key; the words after them are the task.
    """
    ran = harness_here("results", "list", *words, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return [line.split() for line in ran.stdout.splitlines()[2:]]


def test_tasks_are_listed_by_name_and_filtered(harness_here, folder: Path) -> None:
    lines = listed(harness_here, folder)
    assert len(lines) == 12
    assert [line[:2] + line[5:] for line in lines] == sorted(line[:2] + line[5:] for line in lines)  # track, step, task
    assert ["iqa", "attack", "done", "1.00", "metric=mse,", "attack=jpeg[quality=30]"] in [
        [*line[:4], *line[5:]] for line in lines
    ]
    for words, count in {
        ("--step", "attack"): 6,
        ("--track", "iqa"): 6,
        ("--track", "acme/own"): 6,
        ("--component", "jpeg"): 4,
        ("--component", "jpeg[quality=30]"): 4,
        ("--component", "harness/ifgsm"): 4,
        ("--component", "ifgsm"): 8,
        ("--component", "ifgsm", "--component", "sharp"): 4,
        ("--status", "failed"): 1,
        ("--failed",): 1,
        ("--track", "iqa", "--step", "evaluate", "--status", "done"): 3,
        ("--track", "own", "--failed"): 0,
    }.items():
        assert len(listed(harness_here, folder, *words)) == count, words


def test_a_list_has_pages(harness_here, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = listed(harness_here, folder)
    monkeypatch.setattr(results, "PAGE", 5)
    pages = [listed(harness_here, folder, "--page", str(page)) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [line for page in pages for line in page] == whole
    ran = harness_here("results", "list", "--page", "4", cwd=folder)
    assert (ran.returncode, ran.stderr) == (2, "usage: there is no page 4; the last one is 3.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--step", "evalute"),
            "no task has the step 'evalute'. Did you mean 'evaluate'? There are: attack, evaluate.",
        ),
        (("--track", "harness/iqqa"), "no task has the track 'iqqa'. Did you mean 'iqa'? There are: iqa, own."),
        (
            ("--component", "jpg"),
            "no task has the component 'jpg'. Did you mean 'jpeg'? There are: ifgsm, jpeg, mse, sharp.",
        ),
        (
            ("--component", "jpeg", "--component", "ifgm"),
            "no task has the component 'ifgm'. Did you mean 'ifgsm'? There are: ifgsm, jpeg, mse, sharp.",
        ),
    ],
)
def test_a_wrong_name_in_a_filter_names_the_right_one(harness_here, folder, words, message) -> None:
    ran = harness_here("results", "list", *words, cwd=folder)
    assert (ran.returncode, ran.stderr) == (2, f"usage: {message}\n")


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        *(
            ("results", *arguments)
            for arguments in (
                ("list",),
                ("list", "--json"),
                ("show", "a"),
                ("verify",),
                ("rank",),
                ("export", "--format", "csv"),
            )
        ),
    ],
)
def test_a_store_that_is_not_there_is_said_in_one_line(harness_here, tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = harness_here(*words, "--store", "nowhere", cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == "error: store nowhere does not exist or is empty; `harness run` makes one.\n"
    assert not (tmp_path / "nowhere").exists()


def test_a_wrong_command_or_option_names_the_right_one(harness_here, tmp_path: Path) -> None:
    for words, nearest in {
        ("rn",): "run",
        ("result", "list"): "results",
        ("results", "lst"): "list",
        ("plugins", "shw"): "show",
        ("run", "--atack", "x"): "--attack",
        ("results", "list", "--componet", "x"): "--component",
        ("site", "biuld"): "build",
    }.items():
        ran = harness_here(*words, cwd=tmp_path)
        assert ran.returncode == 2, words
        assert f"'{nearest}'" in ran.stderr.splitlines()[-1], ran.stderr

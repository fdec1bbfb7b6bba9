"""A submission on a Ray cluster: each worker starts the package in a sandbox of its own."""

import time
from pathlib import Path

import pytest
from tests.rows_of import rows_of
from tests.submissions.conftest import MakeSubmission
from tests.submissions.test_run import entry

from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness_submissions.run import Run

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]
ON_RAY = {"executor": "ray", "settings": {"ray_address": "local", "memory_per_worker": 0.4, "workers": 1}}


def computed(folder: Path, profile: Path, store: Path, **settings: object) -> dict[str, str]:
    """Compute the tasks of a submission; return digests of their rows."""
    run = Run(folder, Store(store), load_profile(str(profile)), limit=1, **settings)
    try:
        outcome = run.compute(run.plan())
    finally:
        run.opened.guest.kill()
    assert not outcome.failed
    records = [Store(store).record(key) for key in outcome.done]
    assert any(record is not None and record.isolation.startswith("bubblewrap") for record in records)
    return rows_of(store)


def processes_that_name(path: Path) -> list[str]:
    processes = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(path) in words:
            processes.append(words)
    return processes


def test_a_package_in_the_sandboxes_of_ray_workers_gives_the_same_rows_and_leaves_no_process(
    submission: MakeSubmission, profile: Path, tmp_path: Path
) -> None:
    folder = submission("honest/median", entry("good/median"))
    profile.write_text(profile.read_text().replace('"ifgsm", ', ""))
    rows = computed(folder, profile, tmp_path / "ray", **ON_RAY)
    assert len(rows) > 5
    assert rows == computed(folder, profile, tmp_path / "here", workers=0)
    until = time.monotonic() + 120
    while processes_that_name(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_that_name(tmp_path) == []

"""A submission on a Ray cluster: each worker starts the package in a sandbox of its own."""

import time
from pathlib import Path

import pytest
from tests.submissions.conftest import MakeSubmission
from tests.submissions.test_run import entry

from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness_submissions.running import Run

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]
ON_RAY = {"executor": "ray", "settings": {"ray_address": "local", "memory_per_worker": 0.4, "workers": 1}}


def computed(folder: Path, profile: Path, store: Path, **settings: object) -> dict[str, bytes]:
    """Compute the cells of a submission; return the files of their rows."""
    run = Run(folder, Store(store), load_profile(str(profile)), limit=1, **settings)
    try:
        outcome = run.compute(run.plan())
    finally:
        run.opened.guest.kill()
    assert not outcome.failed
    records = [Store(store).record(key) for key in outcome.done]
    assert any(record is not None and record.isolation.startswith("bubblewrap") for record in records)
    return {path.name: path.read_bytes() for path in sorted(store.glob("rows/*/*.parquet"))}


def processes_that_name(place: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(place) in words:
            found.append(words)
    return found


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

"""benchmarks/peers: the works whose speed is compared with other libraries, and the environment of these libraries."""

import sys
from pathlib import Path

import pytest

from imharness.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.usefixtures("peers")
def test_every_work_has_a_name_of_its_own_and_equal_results_are_measured() -> None:
    from benchmarks.peers.catalogue import WORKS
    from benchmarks.peers.work import Contest, measured

    names = [workload.name for workload in WORKS]
    assert len(set(names)) == len(names) > 15
    assert all(workload.what and callable(workload.prepare) for workload in WORKS)
    result = measured(Contest(lambda: [1.0, 2.0], {"slow": lambda: [1.0, 2.5]}, 0.1))
    assert result.peer == "slow"
    assert result.difference == pytest.approx(0.2)


@pytest.mark.usefixtures("peers")
def test_without_the_registry_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks.peers import environment

    monkeypatch.setattr(environment.platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    monkeypatch.setattr(environment.shutil, "which", lambda name: sys.executable)
    monkeypatch.setattr(
        environment.subprocess,
        "run",
        lambda *a, **k: environment.subprocess.CompletedProcess(a, 1, "", "resolving\nno route to the registry\n"),
    )
    with pytest.raises(Unavailable, match="could not be installed: no route to the registry"):
        environment.python()

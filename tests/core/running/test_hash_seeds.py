"""Python draws the order of sets anew for each process: no row, table or page follows it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imharness.results.store import Store

SEEDS = ("1", "2")
HARNESS = (sys.executable, "-m", "imharness")
RUN = ("run", "--track", "iqa", "--profile", "quick", "--limit", "4", "--workers", "0")


def harness(seed: str, folder: Path, *words: str) -> str:
    """Return what a command says in a process with a hash seed."""
    done = subprocess.run(
        [*HARNESS, *words],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file below a folder, by name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Seed -> a folder with a store that was computed with it."""
    folders = {seed: tmp_path_factory.mktemp(f"seed-{seed}") for seed in SEEDS}
    for seed, folder in folders.items():
        harness(seed, folder, *RUN, "--store", "store", "--site", "site")
    return folders


def test_rows_and_the_order_of_tasks_are_the_same(ran: dict[str, Path]) -> None:
    first, second = (folder / "store" for folder in ran.values())
    rows = [{key: record.rows for key, record in Store(store).records()} for store in (first, second)]
    assert any(rows[0].values())
    assert rows[0] == rows[1]
    artifacts = [[*files(store / "artifacts")] for store in (first, second)]
    assert artifacts[0]
    assert artifacts[0] == artifacts[1]
    tasks = [
        [[*json.loads(content)["tasks"].items()] for _, content in files(store / "sweeps")] for store in (first, second)
    ]
    assert tasks[0]
    assert tasks[0] == tasks[1]


def test_tables_and_pages_are_the_same_byte_by_byte(ran: dict[str, Path], tmp_path: Path) -> None:
    """Both from one store, whose times they show."""
    outputs = []
    for seed in SEEDS:
        folder = tmp_path / seed
        shutil.copytree(ran[SEEDS[0]] / "store", folder / "store")
        shutil.rmtree(folder / "store" / "leaderboards")
        ranked_output = harness(seed, folder, "results", "rank", "--store", "store")
        exported = harness(seed, folder, "results", "export", "--store", "store", "--format", "csv", "--to", "tables")
        harness(seed, folder, "site", "build", "--store", "store", "--site", "site")
        outputs.append([("rank", ranked_output), ("export", exported), *files(folder)])
    (first, second) = outputs
    assert [name for name, _ in first] == [name for name, _ in second]
    assert [one for one, other in zip(first, second, strict=True) if one != other] == []

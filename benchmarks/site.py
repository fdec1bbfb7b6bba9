"""Building the site from a store of ten million per-image rows: time, memory, and the time of a second build.

The store is as large as after a full run of *Guardians of Image Quality*: 26 defenses, 9 metrics, 14 attacks in 3
strengths, 1,018 images. It holds a task with its rows for every combination of these, and the tables and scores of
`harness run`.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.leaderboards import COLUMN, leaderboard_of, paired_scores
from benchmarks.timing import Line
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import Row, Table, Value
from imharness.ranking.tables import win_table
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec

DEFENSES, METRICS, ATTACKS, STRENGTHS, IMAGES = 26, 9, 14, ("weak", "medium", "strong"), 1018
BUDGET_S, BUDGET_GIB = 120.0, 4.0


def lines() -> list[Line]:
    """Return time and memory of a first build, and the time of a second one."""
    with tempfile.TemporaryDirectory() as folder:
        rows = generate(Store(Path(folder) / "store"))
        first, memory = built(Path(folder))
        second, _ = built(Path(folder))
    what = f"site of {rows / 1e6:.1f} million rows"
    return [
        Line(f"{what}, s", f"{first:.0f}", f"<= {BUDGET_S:.0f}", first <= BUDGET_S),
        Line(f"{what}, GiB", f"{memory:.2f}", f"<= {BUDGET_GIB:.0f}", memory <= BUDGET_GIB),
        Line(f"{what}, second build, s", f"{second:.0f}", f"<= {first:.0f}", second <= first),
    ]


def built(folder: Path) -> tuple[float, float]:
    """Build in a process of its own; return seconds and peak memory in GiB."""
    command = [
        sys.executable,
        "-c",
        "from imharness.cli import main; main()",
        "site",
        "build",
        "--store",
        str(folder / "store"),
        "--site",
        str(folder / "site"),
    ]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def generate(store: Store) -> int:
    """Fill a store, and return the number of its rows, one for each image in each task."""
    rng = np.random.default_rng(0)
    names = tuple(f"image-{i:04d}" for i in range(IMAGES))
    conditions = [
        {"dataset": "koniq", "metric": f"metric-{m}", "attack": f"attack-{a}", "strength": s}
        for m in range(METRICS)
        for a in range(ATTACKS)
        for s in STRENGTHS
    ]
    labels = tuple(f"acme/defense-{d:02d}" for d in range(DEFENSES))
    quality = rng.normal(0, 1, (DEFENSES, 1))
    values = tuple((quality + rng.normal(0, 1, (DEFENSES, IMAGES))).astype(np.float32) for _ in conditions)
    for c, condition in enumerate(conditions):
        for d, label in enumerate(labels):
            _task(store, condition, label, names, values[c][d])
    paired = paired_scores(labels, conditions, names, values)
    comparison, numbers = paired.stored()
    rows = tuple(Row(label=label, values={"d": Value(value=float(quality[i, 0]))}) for i, label in enumerate(labels))
    main = Table(id="main", title="Defenses", caption="", entry="defense", columns=(COLUMN,), rows=rows, ranked_by="d")
    tables = (main, win_table(paired))
    leaderboard = leaderboard_of("acme/large", "Large", len(conditions) * DEFENSES, tables, comparison)
    write_leaderboard(store, leaderboard, {comparison.id: numbers})
    return numbers.size


def _task(store: Store, condition: dict[str, str], label: str, names: tuple[str, ...], scores: np.ndarray) -> None:
    roles = {**condition, "defense": label}
    components = {
        role: ComponentRef(kind=role, id=f"acme/{role}", version="1", label=value, parameters={"name": value})
        for role, value in roles.items()
    }
    spec = TaskSpec(
        track="acme/large",
        step="evaluate",
        version="1",
        components=components,
        options={},
        limit=None,
        seed=0,
        needs={},
    )
    record = TaskRecord(
        key=digest(spec.identity()), spec=spec, status="done", started="2026", seconds=0.1, device="cpu", versions={}
    )
    store.commit(record, {"name": list(names), "score": scores}, {})

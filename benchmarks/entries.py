"""Tables and site of two thousand entries: time, memory, and the sizes of what is written."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.leaderboards import COLUMN, leaderboard_of, paired_scores
from benchmarks.site import built
from benchmarks.timing import Line
from imharness.documents.entries import Entry
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import Row, Table
from imharness.ranking.comparisons import not_worse
from imharness.ranking.tables import mean_value
from imharness.results.store import Store

ENTRIES, CONDITIONS, IMAGES = 2000, 4, 40
BUDGET_S, BUDGET_GIB, PAGE_MIB, TABLES_S = 300.0, 2.0, 16.0, 300.0


def lines() -> list[Line]:
    """Return the time of the tables, time and memory of a build, and the sizes of what is written."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        generate(Store(Path(folder) / "store"), ENTRIES)
        tables = time.perf_counter() - start
        seconds, memory = built(Path(folder))
        sizes = {path: path.stat().st_size / 2**20 for path in (Path(folder) / "site").rglob("*") if path.is_file()}
        largest = max((path for path in sizes if path.suffix == ".html"), key=lambda path: sizes[path])
    what = f"{ENTRIES:,} entries"
    return [
        Line(f"tests and tables of {what}, s", f"{tables:.0f}", f"<= {TABLES_S:.0f}", tables <= TABLES_S),
        Line(f"site of {what}, s", f"{seconds:.0f}", f"<= {BUDGET_S:.0f}", seconds <= BUDGET_S),
        Line(f"site of {what}, GiB of memory", f"{memory:.2f}", f"<= {BUDGET_GIB:.0f}", memory <= BUDGET_GIB),
        Line(
            f"site of {what}, largest page ({largest.name}), MiB",
            f"{sizes[largest]:.1f}",
            f"<= {PAGE_MIB:.0f}",
            sizes[largest] <= PAGE_MIB,
        ),
        Line(f"site of {what}, MiB in {len(sizes):,} files", f"{sum(sizes.values()):.0f}", "", True),
    ]


def generate(store: Store, entries: int) -> None:
    """Fill a store with the tables of many entries, as they are after `harness run`."""
    rng = np.random.default_rng(0)
    labels = tuple(f"acme/defense-{i:04d}" for i in range(entries))
    names = tuple(f"image-{i:03d}" for i in range(IMAGES))
    conditions = tuple({"metric": f"metric-{i % 2}", "attack": f"attack-{i // 2}"} for i in range(CONDITIONS))
    quality = rng.normal(0, 1, (entries, 1))
    values = tuple((quality + rng.normal(0, 1, (entries, IMAGES))).astype(np.float32) for _ in conditions)
    paired = paired_scores(labels, conditions, names, values)
    comparison, numbers = paired.stored()
    order = np.argsort(numbers.mean(axis=1))
    rows = tuple(
        Row(label=labels[i], values={"d": mean_value(numbers[i])}, facets={"family": f"family {i % 7}"}) for i in order
    )
    main = Table(
        id="main",
        title="Defenses",
        caption="",
        entry="defense",
        columns=(COLUMN,),
        rows=rows,
        ranked_by="d",
        not_worse={"d": not_worse(comparison, numbers, rows[0].label)},
    )
    listed_entries = tuple(Entry(kind="defense", id=label, label=label, version="1") for label in labels)
    leaderboard = leaderboard_of("acme/many", "Many", entries * CONDITIONS, (main,), comparison, listed_entries)
    write_leaderboard(store, leaderboard, {comparison.id: numbers})

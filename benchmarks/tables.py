"""The tables of large stores: seconds and peak memory of `harness results rank`, and how both grow with the rows.

A store has the layout of a run, and its numbers are drawn by chance. Images grow with the rows, tasks do not. Each
ranking is a process of its own, so memory is that of all plugins, too. ``IMHARNESS_ROWS=1e8`` adds a store of that size
of the image-quality track, which needs some 8 GB of disk; ``IMHARNESS_STORES`` is the folder that stores are made in
and kept.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.large import iqa, membership, perceptual
from benchmarks.large.writing import Finished
from benchmarks.timing import Line

BUDGETS = {10**7: (180.0, 2.0), 10**8: (1800.0, 6.0)}
"""Rows -> seconds and GiB that ranking may take."""
STUDIES: dict[str, Callable[[Path, int], Finished]] = {
    "iqa": iqa.write,
    "membership": membership.write,
    "perceptual": perceptual.write,
}
_RANK = (
    "import json, resource, sys; from imharness.cli import cli; cli(sys.argv[1:], standalone_mode=False); "
    "own = resource.getrusage(resource.RUSAGE_SELF); "
    "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')); "
    "print(json.dumps([own.ru_utime + own.ru_stime, int(peak)]))"
)
"""Prints CPU s and peak KiB. `ru_maxrss` would tell the memory of whoever started the process, where that was more."""


def lines() -> list[Line]:
    """Return time and memory of ranking each track, and how time grows from one size to the next."""
    most = int(float(os.environ.get("IMHARNESS_ROWS", "1e7")))
    results, rates = [], list[tuple[int, float]]()
    for size in (10**6, 10**7, 10**8):
        if size <= most:
            rows, seconds = _study("iqa", size, results)
            rates.append((rows, seconds))
    for (fewer, first), (more, second) in itertools.pairwise(rates):
        growth, rows = second / first, more / fewer
        results.append(Line(f"iqa, {rows:.1f} times the rows", f"{growth:.1f} times", f"<= {rows:.1f}", growth <= rows))
    for track in ("membership", "perceptual"):
        _study(track, min(10**7, most), results)
    return results


def _study(track: str, size: int, results: list[Line]) -> tuple[int, float]:
    """Add the lines of one store; return its rows and the CPU seconds of ranking it."""
    with _store(track, size) as (root, rows, tasks):
        start = time.perf_counter()
        command = [sys.executable, "-c", _RANK, "results", "rank", "--store", str(root)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    wall, (seconds, memory) = time.perf_counter() - start, json.loads(output.splitlines()[-1])
    most_s, most_gb = BUDGETS.get(size, (float("inf"), float("inf")))
    what = f"{track}, {rows / 1e6:.1f} million rows, {tasks:,} tasks"
    goal = "" if most_s == float("inf") else f"<= {most_s:.0f}"
    results.append(Line(f"{what}, CPU s ({wall:.0f} s by the clock)", f"{seconds:.0f}", goal, seconds <= most_s))
    goal = "" if most_gb == float("inf") else f"<= {most_gb:.0f}"
    results.append(Line(f"{what}, GiB", f"{memory / 2**20:.2f}", goal, memory / 2**20 <= most_gb))
    return rows, seconds


@contextmanager
def _store(track: str, size: int) -> Iterator[tuple[Path, int, int]]:
    """Make a store, or find it; yield its folder, the rows of its largest step and its tasks."""
    stores_folder = os.environ.get("IMHARNESS_STORES")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(stores_folder or folder) / f"{track}-{size}"
        size_file = root / "size.json"
        if not size_file.exists():
            study = STUDIES[track](root, size)
            size_file.write_text(json.dumps([max(study.rows.values()), study.tasks]))
        rows, tasks = json.loads(size_file.read_text())
        yield root, rows, tasks

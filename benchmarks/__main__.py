"""Prints each benchmark as a ratio to another library, or against its budget; exits with 1 when a goal is missed.

``python -m benchmarks jpeg sandbox`` runs these parts only. ``python -m benchmarks memory [--device cuda] [NAME...]``
predicts the memory of the networks of the profile `official`, or measures it, and their speed. ``python -m benchmarks
peers [NAME...]`` times the works of `benchmarks.peers`, which other libraries do, too; these are installed into an
environment of their own.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
from importlib import import_module

from imharness.cli import console
from imharness.errors import Unavailable

PARTS = (
    "wilcoxon", "full_reference", "jpeg", "attacks", "smoothing", "membership", "frechet", "perceptual",
    "reconstruction", "runner", "balance", "power", "naming", "ray", "sandbox", "records", "site", "tables", "entries",
    "annotation", "gpu",
)  # fmt: skip


def main(names: list[str]) -> None:
    """Run the parts one after the other, and print each when it is done."""
    if names[:1] == ["peers"]:
        sys.exit(_peers(names[1:]))
    if names[:1] == ["memory"]:
        sys.exit(_memory(names[1:]))
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    missed = 0
    for name in names or PARTS:
        try:
            lines = import_module(f"benchmarks.{name}").lines()
        except Unavailable as error:
            console.say(f"{name}: {error}")
            continue
        missed += sum(not line.met for line in lines)
        rows = [(line.what, line.measured, line.goal, "met" if line.met else "MISSED") for line in lines]
        console.table(name, ["what", "measured", "goal", ""], rows)
    sys.exit(1 if missed else 0)


def _memory(words: list[str]) -> str | int:
    from benchmarks import measured, memory

    try:
        request = measured.options(words)
        if not request.device:
            memory.predict(request.names)
        else:
            measured.report(measured.place(request.device), request.names, request.file, predict=request.predict)
    except Unavailable as error:
        return f"memory: {error}"
    return 0


def _peers(names: list[str]) -> int:
    from benchmarks.peers import environment
    from benchmarks.peers.catalogue import WORKS

    available = [workload.name for workload in WORKS]
    unknown = sorted(set(names) - set(available))
    if unknown:
        sys.exit(f"no such work: {', '.join(unknown)}; there are {', '.join(available)}")
    try:
        python = environment.python()
    except Unavailable as error:
        sys.exit(f"peers: {error}")
    return subprocess.run([str(python), "-m", "benchmarks.peers", *names], cwd=environment.ROOT).returncode


main(sys.argv[1:])

"""Prints each benchmark as a ratio to another library, or against its budget; exits with 1 when a goal is missed.

``python -m benchmarks jpeg sandbox`` runs these parts only.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from importlib import import_module

from imharness_cli import console

PARTS = (
    "wilcoxon", "full_reference", "jpeg", "attacks", "smoothing", "membership", "frechet", "perceptual",
    "reconstruction", "runner", "balance", "sandbox", "site", "tables", "entries", "annotation",
)  # fmt: skip


def main(names: list[str]) -> None:
    """Run the parts one after the other, and print each when it is done."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    missed = 0
    for name in names or PARTS:
        lines = import_module(f"benchmarks.{name}").lines()
        missed += sum(not line.met for line in lines)
        rows = [(line.what, line.measured, line.goal, "met" if line.met else "MISSED") for line in lines]
        console.table(name, ["what", "measured", "goal", ""], rows)
    sys.exit(1 if missed else 0)


main(sys.argv[1:])

"""Prints each benchmark as a ratio to another library, or against its budget; exits with 1 when a goal is missed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys

from benchmarks import (
    attacks,
    frechet,
    full_reference,
    jpeg,
    membership,
    perceptual,
    reconstruction,
    runner,
    sandbox,
    site,
    smoothing,
    wilcoxon,
)
from imharness_cli import console


def main() -> None:
    parts = (
        wilcoxon, full_reference, jpeg, attacks, smoothing, membership, frechet, perceptual, reconstruction, runner,
        sandbox, site,
    )  # fmt: skip
    lines = [line for part in parts for line in part.lines()]
    rows = [(line.what, line.measured, line.goal, "met" if line.met else "MISSED") for line in lines]
    console.table("Benchmarks", ["what", "measured", "goal", ""], rows)
    sys.exit(0 if all(line.met for line in lines) else 1)


main()

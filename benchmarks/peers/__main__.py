"""Time the works named on the command line, or all of them; runs in the environment of the peers."""

import importlib.metadata
import logging
import math
import sys
import warnings

import cv2
import torch

from benchmarks.peers.catalogue import WORKS
from benchmarks.peers.work import measured
from imharness.cli import console
from imharness.errors import Unavailable
from imharness.running.memory import keep_freed_memory

PACKAGES = (
    "foolbox", "kornia", "lpips", "numpy", "opacus", "opencv-python-headless", "piq", "pytorch-msssim", "scikit-image",
    "scikit-learn", "scipy", "statsmodels", "torch", "torchattacks", "torchmetrics", "torchvision",
)  # fmt: skip


def main(names: list[str]) -> None:
    """Print one line for each work; exits with 1 where a result is off by more than its tolerance."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    keep_freed_memory()  # as workers do
    warnings.simplefilter("ignore")
    logging.disable()
    console.say(", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    rows, wrong = [], 0
    for workload in WORKS:
        if names and workload.name not in names:
            continue
        try:
            comparison = measured(workload.prepare())
        except Unavailable as error:
            console.say(f"{workload.name}: {error}")
            continue
        equal = comparison.difference <= comparison.tolerance
        wrong += not equal
        rows.append(
            (
                workload.name,
                workload.what,
                f"{1e3 * comparison.ours:.2f} ms",
                f"{comparison.peer} {1e3 * comparison.theirs:.2f} ms",
                f"{comparison.theirs / comparison.ours:.2f}x",
                "not compared"
                if math.isinf(comparison.tolerance)
                else f"{comparison.difference:.0e} {'<=' if equal else 'EXCEEDS'} {comparison.tolerance:.0e}",
            )
        )
        console.say(" | ".join(rows[-1]))
    console.table("peers", ["work", "what", "ours", "fastest peer", "ratio", "difference"], rows)
    sys.exit(1 if wrong else 0)


main(sys.argv[1:])

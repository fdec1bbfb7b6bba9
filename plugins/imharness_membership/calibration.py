"""How far a model's confidence differs from its accuracy."""

import torch

from imharness.data import double

BINS = 15


def calibration_error(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the expected calibration error of probabilities ``(n, classes)`` for int64 labels ``(n,)``, in [0, 1].

    Guo, Pleiss, Sun & Weinberger, "On Calibration of Modern Neural Networks" (ICML 2017), equation 3: rows fall into 15
    bins of equal width by their largest probability; the error is the mean over rows of the distance between a bin's
    mean confidence and its accuracy.
    """
    confidence, guess = double(outputs).max(dim=1)
    bin_index = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    surplus = confidence - double(guess == labels.to(guess.device))
    by_bin = torch.zeros(BINS, dtype=torch.double, device=bin_index.device).index_add(0, bin_index, surplus)
    return float(by_bin.abs().sum()) / len(labels)

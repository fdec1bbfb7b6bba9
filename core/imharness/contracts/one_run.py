"""The audit of one training run: what `imharness.audit_one_run` gives to a track, and what the track finds out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class CanaryScores:
    """Scores of canaries, each of which a coin put into the training set or left out.

    Args:
        scores: ``(m,)``, finite, higher for canaries that were rather in the training set.
        included: bool ``(m,)``, what the coins said.
        delta: the delta of the (epsilon, delta)-differential privacy that is put to the test, in [0, 1).
        confidence: the probability with which the bound holds, in (0, 1).
        guesses: how many canaries are guessed, chosen before the scores were seen; None: the audit tries several
            numbers and pays for the choice. The others are abstained from.
    """

    scores: npt.NDArray[Any]
    included: npt.NDArray[np.bool_]
    delta: float
    confidence: float
    guesses: int | None = None


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of epsilon, and the guesses that gave it.

    Args:
        epsilon: at least 0; with the confidence of the audit, the true epsilon at this delta is not below it.
        guesses: how many canaries were guessed, half of them as included and half of them as left out.
        right: how many of these guesses are right.
    """

    epsilon: float
    guesses: int
    right: int


@dataclass(frozen=True)
class OneRunBounds:
    """The lower bounds of epsilon that one training run shows.

    Args:
        any_algorithm: holds for every algorithm (Steinke, Nasr & Jagielski, NeurIPS 2023).
        gaussian: holds for algorithms whose errors trade off as those of a Gaussian mechanism, such as noisy gradients
            of all rows (Mahloujifar, Melis & Chaudhuri, ICML 2025); for DP-SGD with sampling it is an approximation.
        independent: holds for the same algorithms where no canary shows in the score of another.
        mu: the parameter of the least private Gaussian mechanism that `gaussian` rules out, 1 / the noise multiplier.
        canaries, included: number of all canaries, and of those that the coins put into the training set.
        tried: the numbers of guesses that were tried for the first two; the probability of an error is divided among
            them.
    """

    any_algorithm: LowerBound
    gaussian: LowerBound
    independent: LowerBound
    mu: float
    delta: float
    confidence: float
    canaries: int
    included: int
    tried: tuple[int, ...]

"""`ih.audit_one_run`: a lower bound of epsilon from one training run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.data import derive_seed
from imharness.errors import UsageError
from imharness.extending import Result, array_of, real, refuse_other_orders, seed_of, whole
from imharness.leaderboard import ColumnSpec, Row, Table, Value
from imharness_membership.notebook.trained import ANSWERS, Trainer, folder_of, log_odds, trainer_of
from imharness_membership.one_run import LowerBound, OneRunBounds, one_run_bounds
from imharness_membership.probabilities import summing_to_1

FAMILIES = (
    ("any_algorithm", "any algorithm", "holds whatever the algorithm is (Steinke, Nasr & Jagielski 2023)"),
    ("gaussian", "Gaussian", "holds where errors trade off as for Gaussian noise (Mahloujifar et al. 2025)"),
    ("independent", "Gaussian, independent canaries", "holds where, besides, no canary shows in another's score"),
)
"""For each bound: its attribute in `OneRunBounds`, the label of its row, and for which algorithms it holds."""


@dataclass(frozen=True, repr=False)
class OneRunAudit(Result):
    """The lower bounds of epsilon that one training run shows, as a table of three rows.

    `bounds` has all numbers in full precision. `done` is a sentence on how rounded or cut answers were changed, or "".
    """

    bounds: OneRunBounds = field(kw_only=True)
    done: str = ""

    @property
    def epsilon(self) -> float:
        """The lower bound that holds for any algorithm."""
        return self.bounds.any_algorithm.epsilon

    def _notes(self) -> list[str]:
        bounds = self.bounds
        several_tried = ""
        if len(bounds.tried) > 1:
            several_tried = (
                f"In the first two rows {len(bounds.tried)} numbers of guesses were tried "
                f"({', '.join(map(str, bounds.tried))}), and the probability of an error is divided among them. "
            )
        return [
            *([bounds.doubt] if bounds.doubt else []),
            *([self.done] if self.done else []),
            f"Measured on {bounds.canaries} canaries, of which coins put {bounds.included} into the training set. "
            f"Each epsilon is a lower bound: with {100 * bounds.confidence:g}% confidence, the training is not "
            f"(epsilon, delta)-private for a smaller one at delta {bounds.delta:g}, if what its row assumes is true. "
            f"{several_tried}The headline, `epsilon`, is the row any algorithm, which {FAMILIES[0][2]}; the row "
            f"Gaussian {FAMILIES[1][2]}, and for DP-SGD with sampled batches it is an approximation; the last row "
            f"{FAMILIES[2][2]}, which nobody can see from the scores: where canaries show together it is no bound. A "
            "bound of 0 shows nothing, neither that the training is private nor that it is not.",
        ]


def audit_one_run(
    scores: Any = None,
    included: Any = None,
    *,
    train: Callable[[npt.NDArray[np.int64], int], Any] | None = None,
    data: Any = None,
    canaries: Any = 1000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    guesses: int | None = None,
    seed: int = 0,
    cache: str | os.PathLike[str] | None = None,
) -> OneRunAudit:
    """Find a lower bound of epsilon from one training run: how private it is at most, whatever it promises.

    Fair coins decide, independently for each canary, whether it is in the training set; then the model is trained once.
    From a score of each canary the audit guesses the coins of the canaries with the highest and the lowest scores, and
    abstains from the others. Guesses that are right too often show that epsilon is not small. Give either the scores
    and the coins of a training of yours, or a function that trains:

        ih.audit_one_run(scores, included)
        ih.audit_one_run(train=train, data=(inputs, labels), canaries=1000)

    Args:
        scores: ``(m,)``, one number for each canary, higher if the model knows it rather, such as the log odds of its
            label, or minus its loss. They may depend on the trained model and not on the coins.
        included: ``(m,)``, true for canaries that the coins put into the training set.
        train: ``train(indices, seed) -> model`` trains on these rows of the data and returns a torch module, a model
            with ``predict_proba``, or a function of inputs.
        data: ``(inputs, labels)``, all rows: those that are always trained on, and the canaries.
        canaries: how many rows, drawn at random, are canaries; or their row numbers. Rows with wrong labels, or unlike
            all others, are stronger canaries than ordinary ones.
        delta: the delta of the (epsilon, delta)-differential privacy that is put to the test.
        confidence: the probability with which the bound holds.
        guesses: how many canaries are guessed; choose it before you see scores. By default three numbers are tried, and
            the probability of an error is divided among them; half are guessed for the last bound.
        seed: the seed of the coins and of the training.
        cache: as for `audit`.

    Returns:
        Three lower bounds: one that holds for any algorithm, which is the headline, `epsilon`; a larger one for
        algorithms like Gaussian noise; and the largest for such algorithms whose canaries do not act on each other. The
        last is no bound where they do.

    Raises:
        UsageError: an argument does not fit, canaries are listed more than once, or the coins were not fair.

    Steinke, Nasr & Jagielski, "Privacy Auditing with One (1) Training Run" (NeurIPS 2023); Mahloujifar, Melis &
    Chaudhuri, "Auditing f-Differential Privacy in One Run" (ICML 2025).
    """
    delta, confidence = real("delta", delta), real("confidence", confidence)
    if not 0 <= delta < 1:
        raise UsageError(f"delta: expected a number from 0, below 1, got {delta:g}.")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence: expected a number between 0 and 1, got {confidence:g}.")
    guesses = None if guesses is None else whole("guesses", guesses)
    rows, seed, folder = _rows_or_count(canaries), seed_of(seed), folder_of(cache)
    if train is None:
        if data is not None:
            raise UsageError("data: is for a training function; give train, too, or leave data out.")
        values, coins, done = *_given(scores, included), ""
    elif scores is not None or included is not None:
        raise UsageError("train: give scores and coins, or a training function, not both.")
    else:
        values, coins, done = _trained(trainer_of(train, data, folder), rows, seed)
    bounds = one_run_bounds(values, coins, delta, confidence, guesses)
    columns = {"score": values, "included": coins}
    return OneRunAudit("One-run audit", [_table(bounds)], {"canaries": lambda: columns}, bounds=bounds, done=done)


def _given(scores: Any, included: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the checked scores and coins."""
    refuse_other_orders({"scores": scores, "included": included})
    values, coins = array_of("scores", scores).astype(np.float64), array_of("included", included)
    for name, array in (("scores", values), ("included", coins)):
        if array.ndim != 1:
            raise UsageError(f"{name}: expected one number for each canary, (m,), got shape {array.shape}.")
    if len(values) != len(coins):
        short = "scores" if len(values) < len(coins) else "included"
        raise UsageError(f"{short}: there must be as many scores as coins, got {len(values)} and {len(coins)}.")
    if not np.isfinite(values).all():
        raise UsageError(f"scores: number {int(np.flatnonzero(~np.isfinite(values))[0])} is NaN or infinite.")
    if not np.isin(coins, (0, 1)).all():
        raise UsageError("included: must hold true and false, or 1 and 0.")
    return values, coins.astype(bool)


def _trained(
    trainer: Trainer, canaries: int | npt.NDArray[np.int64], seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], str]:
    """Throw the coins and train once; return the log odds of the canaries' labels, the coins, and a note.

    The note is a sentence on how rounded or cut answers were changed, or "".
    """
    n, rng = len(trainer.labels), np.random.default_rng(derive_seed("one-run audit", seed))
    if isinstance(canaries, int):
        if canaries > n:
            raise UsageError(f"canaries: expected a number from 1 to {n}, the number of rows, got {canaries}.")
        canaries = rng.permutation(n)[:canaries]
    elif canaries.max() >= n:
        raise UsageError(f"canaries: row numbers go from 0 to {n - 1}.")
    coins = rng.random(len(canaries)) < 0.5
    chosen = np.ones(n, dtype=bool)
    chosen[canaries] = coins
    answers, done = summing_to_1(trainer.answers(chosen, seed)[0, canaries], ANSWERS)
    return log_odds(answers, trainer.labels[canaries]), coins, done


def _rows_or_count(value: Any) -> int | npt.NDArray[np.int64]:
    """Return the number of canaries, or their row numbers."""
    array = array_of("canaries", value)
    if array.ndim == 0:
        count = whole("canaries", value)
        if count < 1:
            raise UsageError(f"canaries: expected a number of at least 1, got {count}.")
        return count
    is_rows = array.ndim == 1 and array.dtype.kind in "iu" and len(array) and array.min() >= 0
    if not is_rows or len(np.unique(array)) != len(array):
        raise UsageError("canaries: expected their number, or distinct row numbers.")
    return array.astype(np.int64)


def _table(bounds: OneRunBounds) -> Table:
    """Return the table of the three bounds."""

    def row(label: str, bound: LowerBound) -> Row:
        values = {"epsilon": bound.epsilon, "guesses": bound.guesses, "right": bound.right}
        return Row(label=label, values={key: Value(value=float(number)) for key, number in values.items()})

    return Table(
        id="bounds",
        title="Lower bounds of epsilon",
        caption=f"With {100 * bounds.confidence:g}% confidence, delta {bounds.delta:g}, {bounds.canaries} canaries.",
        entry="holds for",
        columns=(
            ColumnSpec(key="epsilon", label="epsilon, at least", description="Lower bound of epsilon.", better="lower"),
            ColumnSpec(key="guesses", label="guesses", description="Canaries that were guessed.", decimals=0),
            ColumnSpec(key="right", label="right", description="Guesses that are right.", decimals=0),
        ),
        rows=tuple(row(label, getattr(bounds, name)) for name, label, _ in FAMILIES),
        ranked_by="epsilon",
    )

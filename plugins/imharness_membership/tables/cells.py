"""The results of evaluators as arrays: scores of rows, and the figures of every cell."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from imharness.errors import UsageError
from imharness.stats import NotTestable, nested_interval, t_interval, tpr_at_fpr
from imharness.tables import Blocks, Value, missing, value_of
from imharness.tracks import Query

UNDEFENDED = "harness/plain-training"
LOW, LOWEST = 0.01, 0.001
"""The false-positive rate by which defenses are ranked unless a run says otherwise, and the strict one beside it."""
EXPECTED = 10
"""The fewest non-members of all splits that are accused in expectation where a rate is given: of 1,000 for 1 %."""


@dataclass(frozen=True)
class Figure:
    """What is said of an evaluator: the words for it, and the false-positive rate if it is a rate at one."""

    label: str
    meaning: str
    fpr: float = 0.0
    decimals: int = 3

    def ranks(self, non_members: np.ndarray) -> bool:
        """Say whether splits have enough non-members ``(splits,)`` to rank defenses by it; see docs/ranking.md."""
        return not self.fpr or bool(self.fpr * (non_members.max(initial=0) + 1) >= EXPECTED)

    def why_not(self, non_members: np.ndarray) -> str:
        """Return why it is not defined with so many non-members in each split ``(splits,)``; empty if it is."""
        if not self.fpr or not len(non_members):
            return ""
        for word, most, least in (
            ("a split has", int(non_members.max()), math.ceil(1 / self.fpr - 1e-9) - 1),
            ("all splits have", int(non_members.sum()), round(EXPECTED / self.fpr)),
        ):
            if most < least:
                return f"not defined: {word} {most:,} non-members, and it takes {least:,}"
        return ""


Figures = Mapping[str, Figure]
"""Key of a column -> figure."""


def figures_at(fpr: float = LOW) -> Figures:
    """Return the figures of evaluators, the one that ranks first; it is the rate at the given false-positive rate."""
    rates = {rate_key(own): _rate(own) for own in dict.fromkeys((fpr, LOWEST))}
    first = rate_key(fpr)
    return {
        first: rates.pop(first),
        "accuracy": Figure("balanced accuracy", "Balanced accuracy of the guess, 0.5 is chance"),
        "auc": Figure("AUC", "Area under the ROC curve, 0.5 is chance"),
        **rates,
    }


def rate_key(fpr: float) -> str:
    """Return the key of the true-positive rate at a false-positive rate: ``tpr1`` at 1 %, ``tpr01`` at 0.1 %."""
    return f"tpr{100 * fpr:g}".replace(".", "")


def _rate(fpr: float) -> Figure:
    text = f"{100 * fpr:g}%"
    return Figure(
        f"TPR at {text} FPR",
        f"Share of members found by a threshold that accuses a further non-member with at most {text}",
        fpr,
    )


SHARE = (0.0, 1.0)
"""Where intervals of shares, rates and areas end."""
ROUNDING = 1e-12
POOL, DATASET = "pool", "dataset"
"""Facts of a split: the pool of rows that it shares, and its data set."""
SPLITS = (
    "Intervals are Student's t over splits, because all cells of a split share its rows; where all splits give the "
    "same number, there is none. Two splits share up to a third of their rows, so they are not quite independent."
)
POOLED = (
    "Splits of one pool have the same rows and reference models. So the interval of a mean adds the variance of pools "
    "to that of splits within them, and says what to expect on new records; two pools of one data set are too few for "
    "one. Differences of entries, gates and tests take splits as independent: they are about other members among the "
    "same records, and for new records a little too sure (95% intervals of a difference over 16 splits of three pools "
    "held 93.5 to 94.7% of the truths in a simulation). Of the splits on which an evaluator is chosen, those of the "
    "same pool are left out."
)
"""What intervals mean where splits share pools, in the words of captions."""
FACETS = ["dataset", "model", "evaluator", "split", "attacker"]
CELL = ["dataset", "model", "evaluator", "attacker"]
ALWAYS = {"attacker": {"adaptive", "fixed"}}


def scores_of(query: Query) -> Blocks:
    """Return the score of every defense and row, and two facts of the row: its class, and whether it is a member.

    Measures: ``score``; ``right``: the model classifies the row right; ``caught``: its membership is guessed right.
    """
    guesses = query.blocks(
        f"SELECT {labelled(query, 'evaluate')} AS defense, dataset, model, evaluator, split, CASE WHEN adaptive "
        "THEN 'adaptive' ELSE 'fixed' END AS attacker, dataset || ' ' || row AS name, member, label, score, "
        'CAST("right" AS FLOAT) AS "right" FROM evaluate',
        entry="defense",
        by=FACETS,
        measures=["score", "right"],
        about=["member", "label"],
    )
    member = guesses.about["member"]
    caught = [
        np.where(np.isnan(score), np.nan, (score >= 0) == inside).astype(np.float32)
        for score, inside in zip(guesses.values["score"], member, strict=True)
    ]
    values = {**guesses.values, "caught": tuple(caught)}
    return Blocks(guesses.entries, guesses.conditions, guesses.units, values, guesses.about)


def labelled(query: Query, step: str) -> str:
    """Return SQL for the defense's label; early stopping is named after the defense whose accuracy it matches."""
    if "matched" not in query(f"SELECT * FROM {step}_tasks LIMIT 0"):
        return "defense"
    return (
        "CASE WHEN matched IS NULL THEN defense ELSE defense || ', stopped nearest to the accuracy of ' || matched END"
    )


def pools_of(query: Query) -> dict[str, str]:
    """Return split -> the pool of rows and reference models that it shares; empty where each split has its own."""
    if "pool" not in query("SELECT * FROM train_tasks LIMIT 0"):
        return {}
    found = query(
        "SELECT DISTINCT CAST(split AS VARCHAR) AS split, CAST(pool AS VARCHAR) AS pool FROM train_tasks "
        "WHERE pool IS NOT NULL AND role = 'target'"
    )
    return {str(split): str(pool) for split, pool in zip(found["split"], found["pool"], strict=True)}


def said_of(figures: Blocks) -> str:
    """Return what intervals over the splits of these figures mean, in the words of captions."""
    return f"{SPLITS} {POOLED}" if POOL in figures.about else SPLITS


def evaluators_of(blocks: Blocks) -> list[str]:
    """Return the evaluators, sorted."""
    return sorted({own["evaluator"] for own in blocks.conditions})


def apart(places: Sequence[Mapping[str, str]], names: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the positions of places with the same facets, each with the facets that not all places share."""
    several = [name for name in names if len({own[name] for own in places}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, own in enumerate(places):
        groups.setdefault(tuple(own[name] for name in several), []).append(i)
    for key, found in sorted(groups.items()):
        yield list(key), found


def rows_of(scores: Blocks, defense: str, conditions: Iterable[int]) -> dict[str, np.ndarray]:
    """Return measures and facts of a defense's rows, concatenated over those of the conditions that it met."""
    i = scores.entries.index(defense)
    met = [c for c in conditions if not np.isnan(scores.values["score"][c][i]).any()]
    found = {name: [blocks[c][i] for c in met] for name, blocks in scores.values.items()}
    found |= {name: [facts[c] for c in met] for name, facts in scores.about.items()}
    return {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in found.items()}


def figures(score: np.ndarray, member: np.ndarray, kinds: Figures, *, to_choose: bool = False) -> dict[str, np.ndarray]:
    """Return the figures of every row of scores ``(k, n)`` by membership ``(n,)``, each ``(k,)``.

    They are those of `imharness.stats`: balanced accuracy, AUC, and true-positive rates. A row that lacks a number has
    NaN, and so has a rate for which there are too few non-members; numbers `to_choose` evaluators by have the lowest
    rate for which there are enough. Raises `UsageError` without members or without non-members.
    """
    n_in, n_out = int(member.sum()), int((~member).sum())
    if not n_in or not n_out:
        raise UsageError(f"figures of an attack need members and non-members, got {n_in} and {n_out}")
    whole = ~np.isnan(score).any(axis=1)
    known = score[whole].astype(np.float64)
    inside, outside = known[:, member], known[:, ~member]

    def found(key: str, fpr: float) -> np.ndarray:
        if key == "accuracy":
            return (np.mean(inside >= 0, axis=1) + np.mean(outside < 0, axis=1)) / 2
        if key == "auc":
            ranks = scipy.stats.rankdata(known, axis=1)[:, member].sum(axis=1)
            return (ranks - n_in * (n_in + 1) / 2) / (n_in * n_out)
        lowest = max(fpr, 1 / (n_out + 1)) if to_choose else fpr
        try:
            return np.array([tpr_at_fpr(row, member, lowest) for row in known])
        except NotTestable:
            return np.full(len(known), np.nan)

    made = {name: np.full(len(score), np.nan) for name in kinds}
    for name, own in kinds.items():
        made[name][whole] = found(name, own.fpr)
    return made


def figures_of(
    scores: Blocks, kinds: Figures, *, to_choose: bool = False, pools: Mapping[str, str] | None = None
) -> Blocks:
    """Return the figures as measures: a condition for every combination of facets, and all splits as units,
    in the order of their numbers.

    Each split has one fact, its number of non-members, and with `pools`, its pool. A condition without members or
    without non-members has NaN, and so has a figure that is not defined with so many of them, see `figures`.
    """
    splits = sorted({own["split"] for own in scores.conditions}, key=int)
    facets = [sorted({own[name] for own in scores.conditions} | ALWAYS.get(name, set())) for name in CELL]
    shape = (len(scores.entries), len(splits))
    keys = list(itertools.product(*facets))
    cells = {key: {name: np.full(shape, np.nan) for name in kinds} for key in keys}
    others = {key: np.zeros(len(splits), np.int64) for key in keys}
    for c, own in enumerate(scores.conditions):
        key, place, member = tuple(own[name] for name in CELL), splits.index(own["split"]), scores.about["member"][c]
        others[key][place] = np.sum(~member)
        if member.all() or not member.any():
            continue
        for name, numbers in figures(scores.values["score"][c], member, kinds, to_choose=to_choose).items():
            cells[key][name][:, place] = numbers
    for (key, own), (name, figure) in itertools.product(cells.items(), kinds.items()):
        if not to_choose and figure.why_not(others[key]):
            own[name][:] = np.nan
    return Blocks(
        scores.entries,
        tuple(dict(zip(CELL, key, strict=True)) for key in keys),
        tuple(np.array(splits, dtype=object) for _ in keys),
        {name: tuple(cells[key][name] for key in keys) for name in kinds},
        {"non_members": tuple(others[key] for key in keys), **_shared(splits, pools or {}, len(keys))},
    )


def _shared(splits: Sequence[str], pools: Mapping[str, str], conditions: int) -> dict[str, tuple[np.ndarray, ...]]:
    own = np.array([pools.get(split, f"split {split}") for split in splits], dtype=object)
    return {POOL: (own,) * conditions} if pools else {}


def pools_among(figures: Blocks) -> np.ndarray | None:
    """Return the pool of each split ``(splits,)``; None where each split has rows of its own."""
    return figures.about[POOL][0] if figures.about.get(POOL) else None


def mean_of(numbers: Iterable[np.ndarray]) -> np.ndarray:
    """Return the mean of arrays ``(splits,)`` without NaN; a split that has only NaN stays NaN."""
    found = np.stack(list(numbers))
    counts = (~np.isnan(found)).sum(axis=0)
    return np.divide(np.nansum(found, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)


def differ(numbers: np.ndarray) -> bool:
    """Return whether numbers differ by more than rounding."""
    return bool(np.ptp(numbers) > ROUNDING)


def mean_over_splits(numbers: np.ndarray, pools: np.ndarray | None = None, datasets: np.ndarray | None = None) -> Value:
    """Return the mean of numbers ``(splits,)`` with Student's t interval; equal numbers have no interval.

    With `pools` ``(splits,)``, which splits share, the interval is that of `imharness.stats.nested_interval`, within
    `datasets` ``(splits,)`` if pools are of several.

    Splits are few, and each has networks of its own: splits are the repetitions, not rows. Each draws at most a third
    of the same data set as the target's rows, so that two splits share rows and are not quite independent. Where all
    splits give the same number, often a rate of zero, an
    interval of no width would claim certainty.
    """
    found = value_of(t_interval(numbers) if pools is None else nested_interval(numbers, pools, datasets))
    return found if differ(numbers) else Value(value=found.value, n=found.n)


def over_splits(
    shares: np.ndarray,
    reason: str = "no cell",
    pools: np.ndarray | None = None,
    datasets: np.ndarray | None = None,
) -> Value:
    """Return the mean of shares ``(splits,)`` with its interval over splits within [0, 1]; NaN is left out."""
    kept = ~np.isnan(shares)
    if not kept.any():
        return missing(reason)
    groups, strata = (None if own is None else own[kept] for own in (pools, datasets))
    found = mean_over_splits(shares[kept], groups, strata)
    ends = (found.low, found.high)
    low, high = (None if end is None else float(np.clip(end, 0, 1)) for end in ends)
    return Value(value=found.value, n=found.n, low=low, high=high)


def non_members(figures: Blocks) -> np.ndarray:
    """Return the number of non-members in each split ``(splits,)``, where there are the most of all splits."""
    return max(figures.about["non_members"], key=np.sum, default=np.zeros(0))


def why_not(figures: Blocks, figure: Figure) -> str:
    """Return why a figure is missing everywhere."""
    return figure.why_not(non_members(figures)) or "no cell"

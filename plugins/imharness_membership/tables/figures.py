"""The results of evaluators as arrays: scores of rows, and the figures of every task."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from imharness.errors import UsageError
from imharness.leaderboard import Blocks, NotTestable, Value, missing, nested_interval, t_interval, tpr_at_fpr, value_of
from imharness.tracks import Query

UNDEFENDED = "harness/plain-training"
LOW, LOWEST = 0.01, 0.001
"""The false-positive rate by which defenses are ranked unless a run says otherwise, and the strict one beside it."""
EXPECTED = 10
"""The fewest non-members of all splits that are accused in expectation where a rate is given: of 1,000 for 1 %."""
EXACT = 5
"""The fewest non-members of a split that are accused in expectation where a rate is called by the one asked for: of 500
for 1 %. With 160 the threshold for 1 % accuses 0.62 %, and intervals hold the rate at 1 % in half of studies."""
FURTHER = "further"
"""The column of rows that are non-members beyond those that are as many as members; some runs have none."""


@dataclass(frozen=True)
class Figure:
    """What is said of an evaluator: the words for it, and the false-positive rate if it is a rate at one."""

    label: str
    meaning: str
    fpr: float = 0.0
    decimals: int = 3
    rate: float = 0.0
    """The false-positive rate that it has, where non-members are too few for `fpr`."""

    @property
    def percent(self) -> str:
        """The false-positive rate in %, as text."""
        return f"{100 * self.rate:.2g}" if self.rate else f"{100 * self.fpr:g}"

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
    rates = {rate_key(rate): _rate(rate) for rate in dict.fromkeys((fpr, LOWEST))}
    first = rate_key(fpr)
    return {
        first: rates.pop(first),
        "accuracy": Figure(
            "balanced accuracy", "How often a guess is right whether a record was in the training data; 0.5 is a coin"
        ),
        "auc": Figure("AUC", "Area under the ROC curve, 0.5 is chance"),
        **rates,
    }


def named(kinds: Figures, non_members: int) -> Figures:
    """Return figures whose rates have the name of the false-positive rate that so many non-members give them."""
    return {
        key: _rate(figure.fpr, reached(figure.fpr, non_members), figure.label)
        if figure.fpr and 0 < reached(figure.fpr, non_members) < figure.fpr and figure.fpr * (non_members + 1) < EXACT
        else figure
        for key, figure in kinds.items()
    }


def reached(fpr: float, non_members: int) -> float:
    """Return the false-positive rate of the threshold for at most `fpr`, see `imharness.statistics.roc.accusable`."""
    return math.floor(fpr * (non_members + 1) + 1e-9) / (non_members + 1)


def rate_key(fpr: float) -> str:
    """Return the key of the true-positive rate at a false-positive rate: ``tpr1`` at 1 %, ``tpr01`` at 0.1 %."""
    return f"tpr{100 * fpr:g}".replace(".", "")


def _rate(fpr: float, true: float = 0.0, label: str = "") -> Figure:
    """Return the rate at `fpr`; `true`: what so few non-members make of it, by which it is named, and not `label`."""
    text = f"{100 * true:.2g}%" if true else f"{100 * fpr:g}%"
    few = f"; {label} takes {round(EXACT / fpr):,} non-members" if label else ""
    return Figure(
        f"TPR at {text} FPR",
        f"Share of members found by a threshold that accuses a further non-member with at most {text}{few}",
        fpr,
        rate=true,
    )


SHARE = (0.0, 1.0)
"""Where intervals of shares, rates and areas end."""
ROUNDING = 1e-12
POOL, DATASET = "pool", "dataset"
"""Facts of a split: the pool of rows that it shares, and its data set."""
SPLITS = (
    "Intervals are Student's t over splits, because all tasks of a split share its rows; where all splits give the "
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
TASK = ["dataset", "model", "evaluator", "attacker"]
ALWAYS = {"attacker": {"adaptive", "fixed"}}


def scores_of(query: Query) -> Blocks:
    """Return the score of every defense and row, and two facts of the row: its class, and whether it is a member.

    Measures: ``score``; ``right``: the model classifies the row right; ``caught``: its membership is guessed right.
    """
    further = [FURTHER] if FURTHER in query("SELECT * FROM evaluate LIMIT 0") else []
    guesses = query.blocks(
        f"SELECT {labelled(query, 'evaluate')} AS defense, dataset, model, evaluator, split, CASE WHEN adaptive "
        "THEN 'adaptive' ELSE 'fixed' END AS attacker, dataset || ' ' || row AS name, member, label, score, "
        f'CAST("right" AS FLOAT) AS "right"{"".join(f", {name}" for name in further)} FROM evaluate',
        entry="defense",
        by=FACETS,
        measures=["score", "right"],
        about=["member", "label", *further],
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
    columns = query(
        "SELECT DISTINCT CAST(split AS VARCHAR) AS split, CAST(pool AS VARCHAR) AS pool FROM train_tasks "
        "WHERE pool IS NOT NULL AND role = 'target'"
    )
    return {str(split): str(pool) for split, pool in zip(columns["split"], columns["pool"], strict=True)}


def said_of(figures: Blocks) -> str:
    """Return what intervals over the splits of these figures mean, in the words of captions."""
    return f"{SPLITS} {POOLED}" if POOL in figures.about else SPLITS


def evaluators_of(blocks: Blocks) -> list[str]:
    """Return the evaluators, sorted."""
    return sorted({condition["evaluator"] for condition in blocks.conditions})


def apart(places: Sequence[Mapping[str, str]], names: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the positions of places with the same facets, each with the facets that not all places share."""
    several = [name for name in names if len({facets[name] for facets in places}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, condition in enumerate(places):
        groups.setdefault(tuple(condition[name] for name in several), []).append(i)
    for key, indices in sorted(groups.items()):
        yield list(key), indices


def rows_of(scores: Blocks, defense: str, conditions: Iterable[int]) -> dict[str, np.ndarray]:
    """Return measures and facts of a defense's rows, concatenated over those of the conditions that it met.

    Further non-members are left out: what is asked of these rows takes members and non-members for equally many.
    """
    i = scores.entries.index(defense)
    met = [c for c in conditions if not np.isnan(scores.values["score"][c][i]).any()]
    columns = {name: [blocks[c][i] for c in met] for name, blocks in scores.values.items()}
    columns |= {name: [facts[c] for c in met] for name, facts in scores.about.items()}
    joined = {name: np.concatenate(arrays) if arrays else np.zeros(0) for name, arrays in columns.items()}
    further = joined.pop(FURTHER, None)
    return joined if further is None else {name: column[~further.astype(bool)] for name, column in joined.items()}


def figures(score: np.ndarray, member: np.ndarray, kinds: Figures, *, to_choose: bool = False) -> dict[str, np.ndarray]:
    """Return the figures of every row of scores ``(k, n)`` by membership ``(n,)``, each ``(k,)``.

    They are those of `imharness.leaderboard`: balanced accuracy, AUC, and true-positive rates. A row that lacks a
    number has NaN, and so has a rate for which there are too few non-members; numbers `to_choose` evaluators by have
    the lowest rate for which there are enough. Raises `UsageError` without members or without non-members.
    """
    n_in, n_out = int(member.sum()), int((~member).sum())
    if not n_in or not n_out:
        raise UsageError(f"figures of an attack need members and non-members, got {n_in} and {n_out}")
    whole = ~np.isnan(score).any(axis=1)
    complete = score[whole].astype(np.float64)
    inside, outside = complete[:, member], complete[:, ~member]

    def found(key: str, fpr: float) -> np.ndarray:
        if key == "accuracy":
            return (np.mean(inside >= 0, axis=1) + np.mean(outside < 0, axis=1)) / 2
        if key == "auc":
            ranks = scipy.stats.rankdata(complete, axis=1)[:, member].sum(axis=1)
            return (ranks - n_in * (n_in + 1) / 2) / (n_in * n_out)
        lowest = max(fpr, 1 / (n_out + 1)) if to_choose else fpr
        try:
            return np.array([tpr_at_fpr(row, member, lowest) for row in complete])
        except NotTestable:
            return np.full(len(complete), np.nan)

    results = {name: np.full(len(score), np.nan) for name in kinds}
    for name, figure in kinds.items():
        results[name][whole] = found(name, figure.fpr)
    return results


def figures_of(
    scores: Blocks, kinds: Figures, *, to_choose: bool = False, pools: Mapping[str, str] | None = None
) -> Blocks:
    """Return the figures as measures: a condition for every combination of facets, and all splits as units,
    in the order of their numbers.

    Each split has one fact, its number of non-members, and with `pools`, its pool. A condition without members or
    without non-members has NaN, and so has a figure that is not defined with so many of them, see `figures`.
    """
    splits = sorted({condition["split"] for condition in scores.conditions}, key=int)
    facets = [sorted({condition[name] for condition in scores.conditions} | ALWAYS.get(name, set())) for name in TASK]
    shape = (len(scores.entries), len(splits))
    keys = list(itertools.product(*facets))
    tasks = {key: {name: np.full(shape, np.nan) for name in kinds} for key in keys}
    others = {key: np.zeros(len(splits), np.int64) for key in keys}
    for c, entry in enumerate(scores.conditions):
        key, index, member = (
            tuple(entry[name] for name in TASK),
            splits.index(entry["split"]),
            scores.about["member"][c],
        )
        others[key][index] = np.sum(~member)
        if member.all() or not member.any():
            continue
        for name, numbers in figures(scores.values["score"][c], member, kinds, to_choose=to_choose).items():
            tasks[key][name][:, index] = numbers
    for (key, entry), (name, figure) in itertools.product(tasks.items(), kinds.items()):
        if not to_choose and figure.why_not(others[key]):
            entry[name][:] = np.nan
    return Blocks(
        scores.entries,
        tuple(dict(zip(TASK, key, strict=True)) for key in keys),
        tuple(np.array(splits, dtype=object) for _ in keys),
        {name: tuple(tasks[key][name] for key in keys) for name in kinds},
        {"non_members": tuple(others[key] for key in keys), **_shared(splits, pools or {}, len(keys))},
    )


def _shared(splits: Sequence[str], pools: Mapping[str, str], conditions: int) -> dict[str, tuple[np.ndarray, ...]]:
    pool_names = np.array([pools.get(split, f"split {split}") for split in splits], dtype=object)
    return {POOL: (pool_names,) * conditions} if pools else {}


def pools_among(figures: Blocks) -> np.ndarray | None:
    """Return the pool of each split ``(splits,)``; None where each split has rows of its own."""
    return figures.about[POOL][0] if figures.about.get(POOL) else None


def mean_of(numbers: Iterable[np.ndarray]) -> np.ndarray:
    """Return the mean of arrays ``(splits,)`` without NaN; a split that has only NaN stays NaN."""
    stacked = np.stack(list(numbers))
    counts = (~np.isnan(stacked)).sum(axis=0)
    return np.divide(np.nansum(stacked, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)


def differ(numbers: np.ndarray) -> bool:
    """Return whether numbers differ by more than rounding."""
    return bool(np.ptp(numbers) > ROUNDING)


def mean_over_splits(numbers: np.ndarray, pools: np.ndarray | None = None, datasets: np.ndarray | None = None) -> Value:
    """Return the mean of numbers ``(splits,)`` with Student's t interval; equal numbers have no interval.

    With `pools` ``(splits,)``, which splits share, the interval is that of `imharness.leaderboard.nested_interval`,
    within `datasets` ``(splits,)`` if pools are of several.

    Splits are few, and each has networks of its own: splits are the repetitions, not rows. Each draws at most a third
    of the same data set as the target's rows, so that two splits share rows and are not quite independent. Where all
    splits give the same number, often a rate of zero, an
    interval of no width would claim certainty.
    """
    mean = value_of(t_interval(numbers) if pools is None else nested_interval(numbers, pools, datasets))
    return mean if differ(numbers) else Value(value=mean.value, n=mean.n)


def over_splits(
    shares: np.ndarray,
    reason: str = "no task",
    pools: np.ndarray | None = None,
    datasets: np.ndarray | None = None,
) -> Value:
    """Return the mean of shares ``(splits,)`` with its interval over splits within [0, 1]; NaN is left out."""
    defined = ~np.isnan(shares)
    if not defined.any():
        return missing(reason)
    groups, strata = (None if labels is None else labels[defined] for labels in (pools, datasets))
    mean = mean_over_splits(shares[defined], groups, strata)
    ends = (mean.low, mean.high)
    low, high = (None if end is None else float(np.clip(end, 0, 1)) for end in ends)
    return Value(value=mean.value, n=mean.n, low=low, high=high)


def non_members(figures: Blocks) -> np.ndarray:
    """Return the number of non-members in each split ``(splits,)``, where there are the most of all splits."""
    return max(figures.about["non_members"], key=np.sum, default=np.zeros(0))


def most_non_members(member: Iterable[np.ndarray]) -> int:
    """Return the largest number of non-members of a condition. `member`: which rows of each are members."""
    return max((int((~inside.astype(bool)).sum()) for inside in member), default=0)


def why_not(figures: Blocks, figure: Figure) -> str:
    """Return why a figure is missing everywhere."""
    return figure.why_not(non_members(figures)) or "no task"

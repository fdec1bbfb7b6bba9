"""Ranks defenses: how many members the strongest evaluator finds at a low false-positive rate, against test accuracy.

For every data set, model, defense and split, the strongest evaluator is the one that is best on the other splits. An
adversary who knows the defense may also train its shadow models plainly, so it chooses among all evaluators with
either kind of shadow model. Balanced accuracy is the second yardstick: a low false-positive rate says whether anybody
can be accused, balanced accuracy how much is given away of all rows.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.contests import Chosen, Contest, Yardstick, common, contest, controls_of, flags_of, share_of
from imharness.tables import Blocks, Column, Table, Wins
from imharness.tracks import Query, TrackReport
from imharness_membership.tables.canaries import ranked_by_canaries
from imharness_membership.tables.cells import EXPECTED, UNDEFENDED, Figures, non_members, over_splits

MATCHED = ", stopped nearest to the accuracy of "
"""The part of a label that marks early stopping at another defense's accuracy."""
KINDS = {"fixed": ("fixed",), "adaptive": ("adaptive",)}
"""Adversary -> the kinds of shadow model among which it chooses."""
WORST = {"adaptive": ("adaptive", "fixed")}
STRONGEST = "the strongest"
ALONE = "the strongest evaluator of a split is chosen on other splits, and there is one split"
ACCURACY = "accuracy"


CLAIMS = {
    False: "The strongest evaluator that knows the defense finds {protection} of members behind {winner} while at most "
    "{rate} of others are accused, {without} without a defense; test accuracy {utility} of {plain}.",
    True: "The strongest evaluator that knows the defense guesses {protection} of memberships right behind {winner}, "
    "{without} without a defense; test accuracy {utility} of {plain}.",
}
"""Whether defenses are ranked by balanced accuracy -> the headline."""


def ranked_defenses(
    query: Query,
    figures: Blocks,
    kinds: Figures,
    utility: Column,
    tested: Mapping[str, Mapping[str, float]],
    share: float,
) -> TrackReport:
    """Rank defenses by the first of the figures `kinds` and by balanced accuracy, see `_order`.

    `share`: utility that may be lost. `tested`: defense -> the test accuracy of each of its targets, by split.
    """
    keys, note = _order(figures, kinds)
    worst = {key: strongest(figures, key, WORST) for key in keys}
    columns = {key: _protection(kinds, key) for key in keys}
    first, by = keys[0], columns[keys[0]]
    shared = {
        "utility": utility,
        "undefended": UNDEFENDED,
        "share": share,
        "flags": flags_of(query, figures.entries),
        "gates": (share_of(utility.label, UNDEFENDED, share, lambda label: _beside(tested, label)),),
    }
    rules = Contest(
        **shared,
        scores=worst[first].scores,
        protection=by,
        claim=CLAIMS[first == ACCURACY].replace("{rate}", f"{100 * kinds[first].fpr:g}%"),
        attack="evaluator",
        controls=_controls_among(query, figures.entries),
        yardsticks=tuple(Yardstick(worst[key].scores, columns[key]) for key in keys[1:]),
        over=("evaluator", "attacker"),
        unknown=dict.fromkeys(figures.entries, ALONE) if max(map(len, figures.units), default=0) < 2 else {},
        chosen=Chosen(figures, strongest(_run_both_ways(figures, first), first, KINDS).scores, worst[first].broken_by),
    )
    found = contest(
        rules,
        id="defenses",
        title="Defenses against membership inference",
        entry="defense",
        caption=f"Ranked by {by.label} of the strongest evaluator against each defense, beside the accuracy that the "
        "defense keeps. For each data set, model, defense and split, the evaluator is the one that is best on the "
        "other splits, among all evaluators with defended or plain shadow models. Plain training and early stopping at "
        "the accuracy of a defense are controls. Splits are resampled and tested as a whole; two of them share up to a "
        "third of their rows, so they are not quite independent.",
        note=note,
    )
    ranked = replace(
        found, tables=[_beside_it(found.tables[0], columns[key], worst[key].scores) for key in keys[1:]] or found.tables
    )
    return ranked + ranked_by_canaries(query, kinds, shared)


def _order(figures: Blocks, kinds: Figures) -> tuple[list[str], str]:
    """Return the figures that a winner has to be better by, the one that ranks first, and why it is not the first kind.

    The rate at few false positives ranks if each split has enough non-members for it; with fewer, it is a second
    yardstick, or is not asked where it is not defined. That depends on the plan alone, and on no entry.
    """
    low = next(iter(kinds))
    own, count = kinds[low], non_members(figures)
    if own.ranks(count):
        return [low, ACCURACY], ""
    lacking = own.why_not(count)
    if lacking:
        return [ACCURACY], f"{own.label} is {lacking}."
    enough, had = round(EXPECTED / own.fpr), int(count.max())
    return (
        [ACCURACY, low],
        f"A winner has to be better by {own.label}, too; with {enough:,} non-members in each split, "
        f"instead of {had:,}, it would rank.",
    )


def _protection(kinds: Figures, key: str) -> Column:
    """Return the column by which defenses are held against each other."""
    figure = kinds[key]
    return Column(
        key,
        figure.label,
        f"{figure.meaning}. The strongest evaluator counts, chosen on the other splits.",
        "lower",
        figure.decimals,
        cluster="split",
        unit="split",
        wins=Wins(
            f"defense-wins-{key}",
            f"Which defense protects better against the strongest evaluator, by {figure.label}",
            f"a lower {figure.label}",
            unit="split",
        ),
    )


def _beside_it(table: Table, column: Column, scores: Blocks) -> Table:
    """Return a ranking's table with a further figure of the strongest evaluators after the ranked ones."""
    rows = [
        row.model_copy(update={"values": {**row.values, column.key: over_splits(scores.of(column.key, row.label))}})
        for row in table.rows
    ]
    place = [own.key for own in table.columns].index("utility")
    columns = (*table.columns[:place], column.spec, *table.columns[place:])
    return table.model_copy(update={"columns": columns, "rows": tuple(rows)})


def _beside(tested: Mapping[str, Mapping[str, float]], label: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the accuracies of a defense and of plain training on the same splits; None where some of them lack."""
    own, plain = tested.get(label, {}), tested.get(UNDEFENDED, {})
    names = sorted(plain)
    if not names or not own.keys() >= plain.keys():
        return None
    return np.array([own[name] for name in names]), np.array([plain[name] for name in names])


def _run_both_ways(figures: Blocks, key: str) -> Blocks:
    """Return a figure of the evaluators that were run with defended and with plain shadow models; NaN of the others."""
    own, found = figures.conditions, figures.values[key]
    keys = [tuple(facets[name] for name in ("dataset", "model", "evaluator")) for facets in own]

    def both(c: int) -> np.ndarray:
        others = [~np.isnan(found[k]) for k, other in enumerate(keys) if other == keys[c]]
        return np.where(np.all(others, axis=0), found[c], np.nan)

    return replace(figures, values={key: tuple(map(both, range(len(own))))})


def _controls_among(query: Query, defenses: Sequence[str]) -> dict[str, str]:
    """Return the controls with the reason: components that declare it, and early stopping at a defense's accuracy."""
    matched = {label: "early stopping at equal accuracy" for label in defenses if MATCHED in label}
    return controls_of(query, "defense") | matched


@dataclass(frozen=True)
class Strongest:
    """A figure of the strongest evaluators, and entry -> evaluator -> the share of splits in which it is that one."""

    scores: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


def strongest(figures: Blocks, key: str, adversaries: Mapping[str, Sequence[str]]) -> Strongest:
    """Return a figure under each adversary's strongest evaluator: for each split, the one that is best on the others.

    So nothing is chosen on the numbers that are reported: the best of 14 evaluators that guess reaches .520. The blocks
    have a condition for each adversary, data set and model, with splits as units. An evaluator that few defenses met is
    not chosen, see `common`. A single split has no others, and so no strongest evaluator.
    """
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    named: dict[str, Counter[str]] = {label: Counter() for label in figures.entries}
    studies = sorted({(own["dataset"], own["model"]) for own in figures.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        tried = [c for c in figures.where(**facets) if figures.conditions[c]["attacker"] in adversaries[attacker]]
        found = np.stack([figures.values[key][c] for c in tried])
        found[~common(figures.entries, ~np.isnan(found).all(axis=2))] = np.nan
        own, best = _best_of_others(found)
        for label, row, known in zip(figures.entries, best, ~np.isnan(own), strict=True):
            named[label].update(figures.conditions[tried[k]]["evaluator"] for k in row[known])
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(np.array([f"{dataset}, split {split}" for split in figures.units[tried[0]]], dtype=object))
        values.append(own)
    shares = {label: {name: n / own.total() for name, n in own.most_common()} for label, own in named.items()}
    order = [np.argsort(names.astype(str)) for names in units]
    units = [names[at] for names, at in zip(units, order, strict=True)]
    numbers = tuple(own[:, at] for own, at in zip(values, order, strict=True))
    return Strongest(
        Blocks(figures.entries, tuple(conditions), tuple(units), {key: numbers}, {"split": tuple(units)}), shares
    )


def _best_of_others(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a figure of the attack with the highest mean over the other splits, and which attack that is.

    `found`: ``(attacks, entries, splits)``; both are ``(entries, splits)``, NaN where no attack has other splits.
    """
    known = ~np.isnan(found)
    total, count = (own.sum(axis=2, keepdims=True) - own for own in (np.nan_to_num(found), known.astype(int)))
    means = np.divide(total, count, out=np.full(found.shape, -np.inf), where=count > 0)
    best = means.argmax(axis=0)
    own = np.take_along_axis(found, best[None], axis=0)[0]
    return np.where(np.isfinite(means.max(axis=0)), own, np.nan), best

"""Ranks defenses: how many members the strongest evaluator finds at a low false-positive rate, against test accuracy.

For every data set, model and defense, the strongest evaluator is chosen on a quarter of the rows and reported on the
others. An adversary who knows the defense may also train its shadow models plainly, so it chooses among all
evaluators with either kind of shadow model. Balanced accuracy is the second yardstick: a low false-positive rate says
whether anybody can be accused, balanced accuracy how much is given away of all rows.
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
from imharness_membership.tables.cells import EXPECTED, UNDEFENDED, Figures, mean_of, non_members, over_splits

MATCHED = ", stopped nearest to the accuracy of "
"""The part of a label that marks early stopping at another defense's accuracy."""
KINDS = {"fixed": ("fixed",), "adaptive": ("adaptive",)}
"""Adversary -> the kinds of shadow model among which it chooses."""
WORST = {"adaptive": ("adaptive", "fixed")}
STRONGEST = "the strongest"
Parts = tuple[Blocks, Blocks]
"""Figures of the rows to choose on, and of the rows to report."""
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
    parts: Parts,
    kinds: Figures,
    utility: Column,
    tested: Mapping[str, Mapping[str, float]],
    share: float,
) -> TrackReport:
    """Rank defenses by the first of the figures `kinds` and by balanced accuracy, see `_order`.

    `share`: utility that may be lost. `tested`: defense -> the test accuracy of each of its targets, by split.
    """
    chosen, reported = parts
    keys, note = _order(reported, kinds)
    worst = {key: strongest(parts, key, WORST) for key in keys}
    columns = {key: _protection(kinds, key) for key in keys}
    first, by = keys[0], columns[keys[0]]
    shared = {
        "utility": utility,
        "undefended": UNDEFENDED,
        "share": share,
        "flags": flags_of(query, reported.entries),
        "gates": (share_of(utility.label, UNDEFENDED, share, lambda label: _beside(tested, label)),),
    }
    kinds_of = strongest((_run_both_ways(chosen, first), reported), first, KINDS).scores
    rules = Contest(
        **shared,
        scores=worst[first].scores,
        protection=by,
        claim=CLAIMS[first == ACCURACY].replace("{rate}", f"{100 * kinds[first].fpr:g}%"),
        attack="evaluator",
        controls=_controls_among(query, reported.entries),
        yardsticks=tuple(Yardstick(worst[key].scores, columns[key]) for key in keys[1:]),
        over=("evaluator", "attacker"),
        chosen=Chosen(reported, kinds_of, worst[first].broken_by),
    )
    found = contest(
        rules,
        id="defenses",
        title="Defenses against membership inference",
        entry="defense",
        caption=f"Ranked by {by.label} of the strongest evaluator against each defense, beside the accuracy that the "
        "defense keeps. For each data set, model and defense, the evaluator is chosen on a quarter of the rows, drawn "
        "by a hash of their names, among all evaluators with defended or plain shadow models; the others are reported. "
        "Plain training and early stopping at the accuracy of a defense are controls. Splits are resampled and tested "
        "as a whole; two of them share up to a third of their rows, so they are not quite independent.",
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
        f"{figure.meaning}. The strongest evaluator counts, chosen on other rows.",
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
    """A figure of the strongest evaluators, and entry -> evaluator -> how often it is that one, as a share."""

    scores: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


def strongest(parts: Parts, key: str, adversaries: Mapping[str, Sequence[str]]) -> Strongest:
    """Return a figure of each defense's strongest evaluator, which is chosen and reported on different rows.

    Choosing and reporting on the same rows would overstate it, as the best of 14 evaluators that guess reaches .520.
    Choosing for each split on the other splits would make intervals far too short: of evaluators that guess, they cover
    .65 with 16 splits, because splits then share what the choice makes of chance. The blocks have a condition for each
    adversary, data set and model, with splits as units. An evaluator that few defenses met is not chosen, see `common`.
    """
    chosen, reported = parts
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    named: dict[str, Counter[str]] = {label: Counter() for label in reported.entries}
    studies = sorted({(own["dataset"], own["model"]) for own in reported.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        tried = [c for c in reported.where(**facets) if reported.conditions[c]["attacker"] in adversaries[attacker]]
        found = np.stack([mean_of(chosen.values[key][c].T) for c in tried])
        found[~common(reported.entries, ~np.isnan(found))] = np.nan
        best = np.where(np.isnan(found), -np.inf, found).argmax(axis=0)
        own = np.stack([reported.values[key][c] for c in tried])[best, np.arange(len(best))]
        for label, k, known in zip(reported.entries, best, ~np.isnan(found).all(axis=0), strict=True):
            named[label][reported.conditions[tried[k]]["evaluator"]] += bool(known)
        names = np.array([f"{dataset}, split {split}" for split in reported.units[tried[0]]], dtype=object)
        at = np.argsort(names.astype(str))
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(names[at])
        values.append(own[:, at])
    shares = {label: {name: n / own.total() for name, n in own.most_common() if n} for label, own in named.items()}
    scores = {key: tuple(values)}
    return Strongest(Blocks(reported.entries, tuple(conditions), tuple(units), scores, {"split": tuple(units)}), shares)

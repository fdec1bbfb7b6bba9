"""Ranks defenses: how many members the strongest evaluator finds at a low false-positive rate, against test accuracy.

For every data set, model and defense, the strongest evaluator of each split is chosen on other splits, see
`imharness_membership.tables.choice`. An adversary who knows the defense may also train its shadow models plainly, so it
chooses among all evaluators with either kind of shadow model. Balanced accuracy is the secondary measure: a low
false-positive rate says whether anybody can be accused, balanced accuracy how much is given away of all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Chosen,
    Column,
    Contest,
    SecondaryMeasure,
    Table,
    Value,
    Wins,
    Words,
    contest,
    controls_of,
    flags_of,
    share_of,
)
from imharness.tracks import Query, TrackReport
from imharness_membership.tables.calibrated import Calibrated
from imharness_membership.tables.canaries import ranked_by_canaries
from imharness_membership.tables.choice import WAY, Parts, over_strongest, run_both_ways, strongest
from imharness_membership.tables.figures import UNDEFENDED, non_members
from imharness_membership.tables.rates import EXPECTED, Figures
from imharness_membership.tables.splits import DATASET, POOL, POOLED, SHARE

MATCHED = ", stopped nearest to the accuracy of "
"""The part of a label that marks early stopping at another defense's accuracy."""
KINDS = {"fixed": ("fixed",), "adaptive": ("adaptive",)}
"""Adversary -> the kinds of shadow model among which it chooses."""
WORST = {"adaptive": ("adaptive", "fixed")}
ACCURACY = "accuracy"


LIMIT = "takes more than {bound} off the {plain} {of} {without}"


def words_of(of: str) -> Words:
    """Return how headlines speak of a share of right answers, or of members that are named; `of`: of what."""
    return Words("leaks least", lambda share: f"{100 * share:.1f} %", of, LIMIT)


def ranked_defenses(
    query: Query,
    figures: Parts,
    kinds: Figures,
    utility: Column,
    tested: Mapping[str, Mapping[str, float]],
    share: float,
    calibrated: Calibrated,
) -> TrackReport:
    """Rank defenses by the first of the figures `kinds` and by balanced accuracy, see `_order`.

    `share`: utility that may be lost. `tested`: defense -> the test accuracy of each of its targets, by split. What is
    `calibrated` stands beside, and decides nothing.
    """
    reported = figures.reported
    keys, note = _order(reported, kinds)
    worst = {key: strongest(figures, key, WORST) for key in keys}
    pooled = POOL in reported.about
    columns = {key: _protection(kinds, key, pooled=pooled) for key in keys}
    first, by = keys[0], columns[keys[0]]
    of = "of guesses right" if first == ACCURACY else f"of members named at {kinds[first].percent}% FPR"
    shared = {
        "utility": utility,
        "undefended": UNDEFENDED,
        "share": share,
        "flags": flags_of(query, reported.entries),
        "gates": (share_of(utility.label, UNDEFENDED, share, lambda label: _beside(tested, label)),),
    }
    kinds_of = strongest(Parts(*(run_both_ways(side, first) for side in figures)), first, KINDS).scores
    rules = Contest(
        **shared,
        scores=worst[first].scores,
        protection=by,
        words=words_of(of),
        attack="evaluator",
        controls=_controls_among(query, reported.entries),
        matched=_matched(reported.entries),
        secondary_measures=tuple(SecondaryMeasure(worst[key].scores, columns[key]) for key in keys[1:]),
        over=("evaluator", "attacker"),
        chosen=Chosen(reported, kinds_of, worst[first].broken_by),
    )
    contest_report = contest(
        rules,
        id="defenses",
        title="Defenses against membership inference",
        entry="defense",
        caption=f"Ranked by {by.label} of the strongest evaluator against each defense, beside the accuracy that the "
        f"defense keeps. For each data set, model and defense, {WAY}. It is one of all evaluators with defended or "
        "plain shadow models. Plain training and early stopping at the accuracy of a defense are controls. Splits are "
        "resampled and tested as a whole; two of them share up to a third of their rows, so they are not quite "
        f"independent.{' ' + POOLED if pooled else ''} {calibrated.caption}",
        note=note,
    )
    beside = [replace(columns[key], value=partial(_over_all, worst[key].scores, key)) for key in keys[1:]]
    beside += calibrated.columns()[:1] if calibrated.rates else ()
    table, *others = contest_report.tables
    ranked = replace(contest_report, tables=[reduce(_beside_it, beside, table), *others])
    return ranked + ranked_by_canaries(query, kinds, shared)


def _order(figures: Blocks, kinds: Figures) -> tuple[list[str], str]:
    """Return the figures that a winner has to be better by, the one that ranks first, and why it is not the first kind.

    The rate at few false positives ranks if each split has enough non-members for it; with fewer, it is a second
    secondary measure, or is not asked where it is not defined. That depends on the plan alone, and on no entry.
    """
    low = next(iter(kinds))
    figure, count = kinds[low], non_members(figures)
    if figure.ranks(count):
        return [low, ACCURACY], ""
    lacking = figure.why_not(count)
    if lacking:
        return [ACCURACY], f"{figure.label} is {lacking}."
    enough, had = round(EXPECTED / figure.fpr), int(count.max())
    return (
        [ACCURACY, low],
        f"{figure.label} denies a win only where it shows the opposite; with {enough:,} non-members in each "
        f"split, instead of {had:,}, it would rank.",
    )


def _protection(kinds: Figures, key: str, *, pooled: bool) -> Column:
    """Return the column by which defenses are held against each other."""
    figure = kinds[key]
    return Column(
        key,
        figure.label,
        f"{figure.meaning}. The strongest evaluator counts, chosen on other splits.",
        "lower",
        figure.decimals,
        cluster="split",
        unit="split",
        limits=SHARE,
        group=POOL if pooled else "",
        stratum=DATASET if pooled else "",
        wins=Wins(
            f"defense-wins-{key}",
            f"Which defense protects better against the strongest evaluator, by {figure.label}",
            f"a lower {figure.label}",
            unit="split",
        ),
    )


def _over_all(scores: Blocks, key: str, entry: str) -> Value:
    return over_strongest(scores, key, entry, range(len(scores.conditions)))


def _beside_it(table: Table, column: Column) -> Table:
    """Return a ranking's table with a further column, which has a `value`, after the ranked ones."""
    assert column.value is not None
    rows = [
        row.model_copy(update={"values": {**row.values, column.key: column.value(row.label)}}) for row in table.rows
    ]
    position = [spec.key for spec in table.columns].index("utility")
    columns = (*table.columns[:position], column.spec, *table.columns[position:])
    return table.model_copy(update={"columns": columns, "rows": tuple(rows)})


def _beside(tested: Mapping[str, Mapping[str, float]], label: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the accuracies of a defense and of plain training on the same splits; None where some of them lack."""
    defended, plain = tested.get(label, {}), tested.get(UNDEFENDED, {})
    names = sorted(plain)
    if not names or not defended.keys() >= plain.keys():
        return None
    return np.array([defended[name] for name in names]), np.array([plain[name] for name in names])


def _controls_among(query: Query, defenses: Sequence[str]) -> dict[str, str]:
    """Return the controls with the reason: components that declare it, and early stopping at a defense's accuracy."""
    stopped = dict.fromkeys(_matched(defenses), "early stopping at equal accuracy")
    return controls_of(query, "defense") | stopped


def _matched(defenses: Sequence[str]) -> dict[str, str]:
    """Return each control that was stopped at a defense's accuracy -> that defense."""
    return {label: label.partition(MATCHED)[2] for label in defenses if MATCHED in label}

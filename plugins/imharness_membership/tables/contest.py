"""Ranks defenses by the share of members that the strongest evaluator finds at a low false-positive rate.

For every data set, model and defense, the strongest evaluator of each split is chosen on other splits, see
`imharness_membership.tables.choice`. An adversary who knows the defense may also train its shadow models plainly, so it
chooses among all evaluators with either kind of shadow model. The utility is test accuracy. Balanced accuracy is the
secondary measure: the rate at few false positives says whether somebody can be accused, balanced accuracy how much is
given away about all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

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
"""The same for an adversary who knows the defense and may ignore it."""
ACCURACY = "accuracy"


LIMIT = "takes more than {bound} off the {plain} {of} {without}"


def words_of(of: str) -> Words:
    """Return how headlines speak of a share; `of`: of what, such as "of guesses right"."""
    return Words(lead="leaks least", amount=lambda share: f"{100 * share:.1f} %", of=of, limit=LIMIT)


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

    Args:
        figures: of rows on which evaluators are chosen, and of rows that are reported.
        utility: the column of test accuracy.
        tested: defense -> split -> the mean test accuracy of its targets.
        share: the share of the undefended utility that a winner may lose.
        calibrated: a further column of the table, which decides nothing.
    """
    reported = figures.reported
    keys, note = _order(reported, kinds)
    worst = {key: strongest(figures, key, WORST) for key in keys}
    pooled = POOL in reported.about
    columns = {key: _protection(kinds, key, pooled=pooled) for key in keys}
    first, protection = keys[0], columns[keys[0]]
    of = "of guesses right" if first == ACCURACY else f"of members named at {kinds[first].percent}% FPR"
    shared = {  # arguments of this ranking and of that by canaries
        "utility": utility,
        "undefended": UNDEFENDED,
        "share": share,
        "flags": flags_of(query, reported.entries),
        "gates": (share_of(utility.label, UNDEFENDED, share, lambda label: _paired_accuracies(tested, label)),),
    }
    kinds_of = strongest(Parts(*(run_both_ways(side, first) for side in figures)), first, KINDS).scores
    rules = Contest(
        **shared,
        scores=worst[first].scores,
        protection=protection,
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
        caption=f"Ranked by {protection.label} of the strongest evaluator against each defense, beside the accuracy "
        f"that the defense keeps. For each data set, model and defense, {WAY}. It is one of all evaluators with "
        "defended or plain shadow models. Plain training and early stopping at the accuracy of a defense are "
        "controls. Splits are resampled and tested as a whole; two of them share up to a third of their rows, so "
        f"they are not quite independent.{' ' + POOLED if pooled else ''} {calibrated.caption}",
        note=note,
    )
    further_columns = [replace(columns[key], value=partial(_over_all, worst[key].scores, key)) for key in keys[1:]]
    further_columns += calibrated.columns()[:1] if calibrated.rates else ()
    table, *others = contest_report.tables
    for column in further_columns:
        table = _with_column(table, column)
    ranked = replace(contest_report, tables=[table, *others])
    return ranked + ranked_by_canaries(query, kinds, shared)


def _order(figures: Blocks, kinds: Figures) -> tuple[list[str], str]:
    """Return the figures by which a winner has to be better, and a note if the first of `kinds` does not rank.

    The first of the returned figures ranks. It is the rate at few false positives if each split has enough non-members
    for it. With fewer, balanced accuracy ranks, and the rate is the secondary measure, or is left out if it is not
    defined. This depends on the plan alone, and on no entry.
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
    """Return the column of a figure by which defenses are compared; `pooled`: whether splits share pools."""
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
    """Return the mean of an entry's figure over all splits, data sets and models."""
    return over_strongest(scores, key, entry, range(len(scores.conditions)))


def _with_column(table: Table, column: Column) -> Table:
    """Return a ranking's table with a further column before the column of utility; the column must have a `value`."""
    assert column.value is not None
    rows = [
        row.model_copy(update={"values": {**row.values, column.key: column.value(row.label)}}) for row in table.rows
    ]
    position = [spec.key for spec in table.columns].index("utility")
    columns = (*table.columns[:position], column.spec, *table.columns[position:])
    return table.model_copy(update={"columns": columns, "rows": tuple(rows)})


def _paired_accuracies(tested: Mapping[str, Mapping[str, float]], label: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the accuracies of a defense and of plain training, each ``(splits,)``; None if a split is missing."""
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

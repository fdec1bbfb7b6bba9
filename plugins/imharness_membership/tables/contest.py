"""Ranks defenses: how many memberships the strongest evaluator guesses right, against the test accuracy that is left.

For every data set, model and defense, the strongest evaluator is chosen on one half of the rows and reported on the
other. An adversary who knows the defense may also train its shadow models plainly, so it chooses among all evaluators
with either kind of shadow model.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.contests import Chosen, Contest, common, contest, controls_of, flags_of, share_of
from imharness.tables import Blocks, Column, Wins
from imharness.tracks import Query, TrackReport
from imharness_membership.tables.cells import figures_of, mean_of

PLAIN = "harness/plain-training"
MATCHED = ", stopped nearest to the accuracy of "
"""The part of a label that marks early stopping at another defense's accuracy."""
MEASURE = "guessed"
KINDS = {"fixed": ("fixed",), "adaptive": ("adaptive",)}
"""Adversary -> the kinds of shadow model among which it chooses."""
WORST = {"adaptive": ("adaptive", "fixed")}
STRONGEST = "the strongest"
PROTECTION = Column(
    "accuracy",
    "attack accuracy",
    "Balanced accuracy of the guess by the strongest evaluator, chosen on the other half of the rows; 0.5 is chance. "
    "Members and non-members of a split have the same weight.",
    "lower",
    of=MEASURE,
    cluster="split",
    unit="row",
    wins=Wins(
        "defense-wins",
        "Which defense protects better against the strongest evaluator",
        "fewer memberships guessed right",
        unit="row",
    ),
)
CLAIM = (
    "The strongest evaluator that knows the defense guesses {protection} of memberships right behind {winner}, "
    "{without} without a defense; test accuracy {utility} of {plain}."
)


def ranked_defenses(
    query: Query,
    halves: tuple[Blocks, Blocks],
    utility: Column,
    tested: Mapping[str, Mapping[str, float]],
    share: float,
) -> TrackReport:
    """Rank defenses; `halves`: scores of the rows to choose on and to report; `share`: utility that may be lost.

    `tested`: defense -> the test accuracy of each of its targets, by split.
    """
    chosen, reported = figures_of(halves[0]), _weighted(halves[1])
    worst, broken_by = _strongest(chosen, reported, WORST)
    kinds, _ = _strongest(_run_both_ways(chosen), reported, KINDS)
    rules = Contest(
        scores=worst,
        protection=PROTECTION,
        utility=utility,
        undefended=PLAIN,
        claim=CLAIM,
        attack="evaluator",
        share=share,
        gates=(share_of(utility.label, PLAIN, share, lambda label: _beside(tested, label)),),
        controls=_controls_among(query, worst.entries),
        flags=flags_of(query, worst.entries),
        over=("evaluator", "attacker"),
        chosen=Chosen(reported, kinds, broken_by),
    )
    return contest(
        rules,
        id="defenses",
        title="Defenses against membership inference",
        entry="defense",
        caption="The attack accuracy of the strongest evaluator against each defense, and the accuracy that the "
        "defense keeps. For each data set, model and defense, the evaluator is chosen on one half of the rows, drawn "
        "by a hash of their names, among all evaluators with defended or plain shadow models; the other half is "
        "reported. Plain training and early stopping at the accuracy of a defense are controls. Splits are resampled "
        "and tested as a whole; two of them share up to a third of their rows, so they are not quite independent.",
    )


def _beside(tested: Mapping[str, Mapping[str, float]], label: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the accuracies of a defense and of plain training on the same splits; None where some of them lack."""
    own, plain = tested.get(label, {}), tested.get(PLAIN, {})
    names = sorted(plain)
    if not names or not own.keys() >= plain.keys():
        return None
    return np.array([own[name] for name in names]), np.array([plain[name] for name in names])


def _run_both_ways(figures: Blocks) -> Blocks:
    """Return figures of the evaluators that were run with defended and with plain shadow models; NaN of the others."""
    own, found = figures.conditions, figures.values["accuracy"]
    keys = [tuple(facets[name] for name in ("dataset", "model", "evaluator")) for facets in own]

    def both(c: int) -> np.ndarray:
        others = [~np.isnan(found[k]) for k, key in enumerate(keys) if key == keys[c]]
        return np.where(np.all(others, axis=0), found[c], np.nan)

    return replace(figures, values={**figures.values, "accuracy": tuple(map(both, range(len(own))))})


def _controls_among(query: Query, defenses: Sequence[str]) -> dict[str, str]:
    """Return the controls with the reason: components that declare it, and early stopping at a defense's accuracy."""
    matched = {label: "early stopping at equal accuracy" for label in defenses if MATCHED in label}
    return controls_of(query, "defense") | matched


def _weighted(scores: Blocks) -> Blocks:
    """Return 1 for rows guessed right and 0 for others, weighted so that its mean over a split is balanced accuracy.

    The rows of a split are units; conditions with the same rows share one array of names.
    """
    found, units, splits = [], [], []
    known: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    for c, own in enumerate(scores.conditions):
        place = own["dataset"], own["split"]
        if place not in known or not np.array_equal(known[place][0], scores.units[c]):
            names = np.array([f"{name}, split {own['split']}" for name in scores.units[c]], dtype=object)
            known[place] = scores.units[c], names
        member = scores.about["member"][c].astype(bool)
        sides = np.where(member, member.sum(), (~member).sum())
        found.append(scores.values["caught"][c] * (len(member) / (2 * sides)))
        units.append(known[place][1])
        splits.append(np.full(len(member), f"{own['dataset']}, split {own['split']}", dtype=object))
    return Blocks(scores.entries, scores.conditions, tuple(units), {MEASURE: tuple(found)}, {"split": tuple(splits)})


def _strongest(
    figures: Blocks, reported: Blocks, adversaries: Mapping[str, Sequence[str]]
) -> tuple[Blocks, dict[str, dict[str, float]]]:
    """Return the reported rows under each adversary's strongest evaluator, and how often each evaluator is that one.

    `figures`: figures of the rows to choose on. The blocks have a condition for each adversary, data set and model,
    with the rows of all splits. An evaluator that few defenses met is not chosen, see `common`.
    """
    conditions, units, values, splits = [], [], [], []
    named: dict[str, Counter[str]] = {label: Counter() for label in reported.entries}
    studies = sorted({(own["dataset"], own["model"]) for own in reported.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        tried = {_attack(figures.conditions[c]): c for c in figures.where(**facets)}
        tried = {key: c for key, c in tried.items() if key[1] in adversaries[attacker]}
        found = np.stack([mean_of(figures.values["accuracy"][c].T) for c in tried.values()])
        found[~common(reported.entries, ~np.isnan(found))] = np.nan
        best = np.where(np.isnan(found), -np.inf, found).argmax(axis=0)
        here = reported.where(**facets)
        arrays = {id(reported.units[c]): reported.units[c] for c in here}
        names = np.unique(np.concatenate(list(arrays.values())).astype(str)).astype(object)
        places = {key: np.searchsorted(names, own) for key, own in arrays.items()}
        block, groups = np.full((len(reported.entries), len(names)), np.nan), np.empty(len(names), dtype=object)
        for c in here:
            at, attack = places[id(reported.units[c])], _attack(reported.conditions[c])
            groups[at] = reported.about["split"][c]
            if attack in tried:
                rows = best == list(tried).index(attack)
                block[np.ix_(rows, at)] = reported.values[MEASURE][c][rows]
        for label, k, any_known in zip(reported.entries, best, ~np.isnan(found).all(axis=0), strict=True):
            named[label][list(tried)[k][0]] += bool(any_known)
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(names)
        values.append(block)
        splits.append(groups)
    scores, facts = {MEASURE: tuple(values)}, {"split": tuple(splits)}
    shares = {label: {name: n / own.total() for name, n in own.most_common() if n} for label, own in named.items()}
    return Blocks(reported.entries, tuple(conditions), tuple(units), scores, facts), shares


def _attack(condition: Mapping[str, str]) -> tuple[str, str]:
    return condition["evaluator"], condition["attacker"]

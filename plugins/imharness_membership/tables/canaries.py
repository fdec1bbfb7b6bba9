"""The second ranking: how many canaries, the most vulnerable records, are found behind each defense.

The attack compares the answer of a split's model with those of the other splits' models of the same defense, most of
which did not see the record. So the adversary knows the defense, and has a distribution for every single record. It is
LiRA, offline, with one variance for all records: Carlini et al., "Membership Inference Attacks From First Principles"
(IEEE S&P 2022), section VI-B.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from imharness.leaderboard import Blocks, Column, Contest, Wins, Words, contest, controls_of
from imharness.tracks import Query, TrackReport
from imharness_membership.tables.figures import figures
from imharness_membership.tables.rates import Figures, figures_at, most_non_members, with_reached_rates
from imharness_membership.tables.splits import SHARE


def ranked_by_canaries(query: Query, kinds: Figures, rules: Mapping[str, Any]) -> TrackReport:
    """Rank defenses by the first figure of `kinds`, measured on canaries; the report is empty without canaries.

    `rules`: arguments of `Contest` that this ranking has in common with the ranking by all rows.
    """
    if "canary" not in query.steps:
        return TrackReport()
    key = next(iter(kinds))
    answers = _answers(query)
    figure = with_reached_rates({key: figures_at(kinds[key].fpr)[key]}, most_non_members(answers.about["member"]))[key]
    canary_scores = found_canaries(answers, kinds, key)
    column = Column(
        key,
        f"canary {figure.label}",
        f"{figure.meaning}, of mislabelled records. The attack holds each record against models with the same defense, "
        "most of which did not see it.",
        "lower",
        figure.decimals,
        cluster="split",
        unit="split",
        limits=SHARE,
        wins=Wins(
            "canary-wins",
            "Which defense protects the most vulnerable records better",
            f"a lower {figure.label} on canaries",
            unit="split",
        ),
    )
    return contest(
        Contest(
            scores=canary_scores,
            protection=column,
            words=Words(
                lead="leaks least",
                amount=lambda share: f"{100 * share:.1f} %",
                of=f"of canaries named at {figure.percent}% FPR",
                limit="takes more than {bound} off the {plain} {of} {without}",
            ),
            controls=controls_of(query, "defense"),
            **rules,
        ),
        id="canaries",
        title="Protection of the most vulnerable records",
        entry="defense",
        caption="Each split trains one more model with every defense, on its rows and on an eighth of the mislabelled "
        "records, drawn by the split. A model learns a wrong label by heart or not at all: defenses that look alike in "
        "the mean over all rows differ here (Aerni, Zhang & Tramer, 2024). Test accuracy is that of models without "
        "canaries. Releases work on an undefended model.",
    )


def _answers(query: Query) -> Blocks:
    """Return the log odds of every defense's model on every canary, by data set, model and split."""
    return query.blocks(
        "SELECT defense, dataset, model, split, dataset || ' ' || row AS name, member, score FROM canary",
        entry="defense",
        by=["dataset", "model", "split"],
        measures=["score"],
        about=["member"],
    )


def found_canaries(answers: Blocks, kinds: Figures, key: str) -> Blocks:
    """Return the figure `key` of the attack on canaries: a condition for every data set and model, splits as units."""
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    for dataset, model in sorted({(condition["dataset"], condition["model"]) for condition in answers.conditions}):
        here = sorted(answers.where(dataset=dataset, model=model), key=lambda c: answers.conditions[c]["split"])
        score = np.stack([answers.values["score"][c] for c in here], axis=1)
        inside = np.stack([answers.about["member"][c].astype(bool) for c in here])
        beyond = beyond_others(score, inside)
        canary_figures = [
            figures(beyond[:, split], member, {key: kinds[key]})[key] for split, member in enumerate(inside)
        ]
        conditions.append(
            {"dataset": dataset, "model": model, "attack": "models with the same defense", "attacker": "adaptive"}
        )
        names = [f"{dataset}, split {int(answers.conditions[c]['split']):03}" for c in here]
        units.append(np.array(names, dtype=object))
        values.append(np.stack(canary_figures, axis=1))
    return Blocks(answers.entries, tuple(conditions), tuple(units), {key: tuple(values)}, {"split": tuple(units)})


def beyond_others(score: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return each answer minus the mean answer of those other splits' models that were not trained on the record.

    Args:
        score: answers ``(entries, splits, n)``, NaN where there is none.
        inside: which records each split trains on ``(splits, n)``.

    Returns:
        The same shape. Where all other models were trained on the record, the mean over all records and models of
        answers by models that were not trained on the record takes its place.
    """
    out = ~inside & ~np.isnan(score)
    total, count = np.where(out, score, 0.0).sum(axis=1, keepdims=True), out.sum(axis=1, keepdims=True)
    others, remaining = total - np.where(out, score, 0.0), count - out
    means = np.divide(others, remaining, out=np.full(score.shape, np.nan), where=remaining > 0)
    every = np.nanmean(np.where(out, score, np.nan), axis=(1, 2), keepdims=True)
    return score - np.where(np.isnan(means), every, means)

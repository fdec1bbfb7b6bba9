"""Columns with the results of the test of each record, whose false-positive rate of 1 % holds record by record.

Other rates have one threshold for all records. Jälkö, Pradhan, Räisä & Honkela, "On Reliability of Efficient Membership
Inference Vulnerability Evaluation" (arXiv 2605.25819, 2026; the abstract and the opening were available): a
false-positive rate that is pooled over records does not hold for each of them. The test is that of
`imharness_membership.per_record`. No ranking depends on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from imharness.leaderboard import Blocks, Column, Value, missing
from imharness.tracks import Query
from imharness_membership.per_record import ENOUGH, FPR
from imharness_membership.tables.figures import labelled
from imharness_membership.tables.splits import SHARE, over_splits

TPR, ACCUSED = "calibrated", "calibrated_fpr"
"""Keys of the columns."""
SURE = 0.999
"""The rate is withheld if the test is shown with this confidence to accuse more than 1 % of the non-members."""
LABEL = f"calibrated TPR at {100 * FPR:g}% FPR"


@dataclass(frozen=True)
class Calibrated:
    """The results of the test for each defense.

    Args:
        rates: defense -> the values of both columns; empty if no record was tested.
        reason: why there is no number.
        references: the number of models that were not trained on a record: the median of a split, the least of all
            splits.
    """

    rates: Mapping[str, Mapping[str, Value]]
    reason: str
    references: int = 0

    @property
    def caption(self) -> str:
        """What the rate means, or why there is none, in a sentence."""
        if not self.rates:
            return f"There is no calibrated TPR: {self.reason}."
        return (
            "The calibrated TPR is of a test that holds each record against its own reference models, for half of the "
            f"records at least {self.references} without it: it accuses each non-member with a chance of "
            f"{100 * FPR:g}% where answers are Gaussian, while one threshold for all accuses some far more often. It "
            "decides no rank."
        )

    def columns(self) -> tuple[Column, ...]:
        """Return the column of the rate and, where there is one, of the share of non-members that the test accuses."""

        def value(key: str) -> Callable[[str], Value]:
            return lambda defense: self.rates.get(defense, {}).get(key, missing(self.reason))

        both = (
            Column(
                TPR,
                LABEL,
                "Share of members that a test of each record with its own reference models finds; a record with fewer "
                "than two models without it is not found. The adversary knows the defense.",
                "lower",
                value=value(TPR),
                unit="split",
                limits=SHARE,
            ),
            Column(
                ACCUSED,
                "non-members that it accuses",
                f"Share of non-members that the same test accuses: {100 * FPR:g}% or less if what it assumes is true.",
                value=value(ACCUSED),
                unit="split",
                limits=SHARE,
            ),
        )
        return both if self.rates else both[:1]


def calibrated_rates(query: Query, scores: Blocks, pools: Mapping[str, str]) -> Calibrated:
    """Return the results of the tests of each record, or why there are none; `scores`: the scores of evaluators."""
    if "calibrated" not in query.steps:
        return Calibrated({}, _too_few(query, scores))
    columns = query(
        f"SELECT {labelled(query, 'calibrated')} AS defense, dataset, model, CAST(split AS VARCHAR) AS split, "
        f'avg(CAST(p <= {FPR} AS DOUBLE)) FILTER (WHERE member) AS "{TPR}", '
        f'avg(CAST(p <= {FPR} AS DOUBLE)) FILTER (WHERE NOT member) AS "{ACCUSED}", '
        'count(*) FILTER (WHERE NOT member) AS others, min("references") AS least FROM calibrated '
        "GROUP BY ALL ORDER BY ALL"
    )
    rates = {
        defense: _values({name: column[columns["defense"] == defense] for name, column in columns.items()}, pools)
        for defense in scores.entries
    }
    return Calibrated(rates, "no task", int(columns["least"].min(initial=np.inf)))


def _values(rows: Mapping[str, np.ndarray], pools: Mapping[str, str]) -> dict[str, Value]:
    """Return both columns of a defense: means over the splits of all data sets and models that have a number."""
    groups = [f"{name}, pool {pools.get(split)}" for name, split in zip(rows["dataset"], rows["split"], strict=True)]
    shared = (np.array(groups, dtype=object), rows["dataset"].astype(object)) if pools else ()
    values = {key: over_splits(rows[key].astype(np.float64), "no task", *shared) for key in (TPR, ACCUSED)}
    others = int(rows["others"].sum())
    accused = round(float(rows["others"] @ rows[ACCUSED])) if others else 0
    if others and scipy.stats.binomtest(accused, others).proportion_ci(SURE).low > FPR:
        values[TPR] = missing(
            f"the test accuses {100 * accused / others:.1f}% of the non-members: it does not hold here"
        )
    return values


def _too_few(query: Query, scores: Blocks) -> str:
    """Return why records were not tested."""
    if "references" not in query.steps:
        return "no evaluator of this run reads reference models"
    models = int(query('SELECT max(models) AS models FROM "references_tasks"')["models"][0])
    members = max((float(inside.mean()) for inside in scores.about["member"] if len(inside)), default=0.5)
    without = models * (1 - members)
    if without >= ENOUGH:
        return "no task"
    return f"it takes {ENOUGH} reference models without each record, and about {without:.0f} of {models} are"

"""Rankings by family, as the papers have them: purifications, training defenses on their metrics, and certificates.

In the ranking over all settings a training defense is incomplete, since it exists for some metrics only, and a
certificate has no rank, since attacks on single images say nothing about what it promises.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from imharness.leaderboard import Blocks, Column, Contest, Lazy, Wins, Words, contest, flags_of, share_of
from imharness.tracks import Query, TrackReport
from imharness_iqa.tables.certified_order import RANKED, RANKED_SHARE, shares
from imharness_iqa.tables.data import BASELINE, SHARE, UNIT, Study, computed, read_sources
from imharness_iqa.tables.part import Part

UTILITY = Column(
    "srocc",
    "SROCC, clean",
    "Spearman correlation of the smoothed score with the quality labels, of an abstention its most frequent class; "
    "mean over metrics.",
    "higher",
    unit="image",
    cluster_unit="photograph",
)
_PROMISED = f"""
SELECT dataset, metric, defense, {UNIT} AS unit, t.score, t.low, t.high, t.reach,
       CAST(t.abstained AS DOUBLE) AS abstained, c.mos, c.sign
FROM certify t JOIN clean c USING (dataset, metric, name) WHERE NOT t.attacked AND t.defense = t.entry
UNION ALL BY NAME
SELECT dataset, metric, '{BASELINE}' AS defense, {UNIT} AS unit, c.score, c.score AS low, c.score AS high, 0.0 AS reach,
       1.0 AS abstained, c.mos, c.sign
FROM clean c SEMI JOIN (SELECT dataset, metric, name FROM certify WHERE NOT attacked) USING (dataset, metric, name)
"""


@dataclass(frozen=True)
class Family:
    """Defenses that are ranked among themselves, by their labels.

    `metrics`: the metrics that count, as these defenses exist for no others; empty for all.
    """

    id: str
    title: str
    caption: str
    labels: Collection[str]
    metrics: Collection[str] = ()


def families(study: Study, rules: Contest) -> list[Family]:
    """Return the families, if a run has both purifications and training defenses; with one of them alone, none."""
    purifying, training = (
        [label for label in labels if label in rules.scores.entries and label not in rules.controls]
        for labels in (study.chosen, sorted(study.trained))
    )
    if not purifying or not training:
        return []
    return [
        Family("ranking-purifications", "Purifications", "Purifications alone, over all metrics.", purifying),
        Family(
            "ranking-training",
            "Training defenses, on the metrics that they are made for",
            "Training defenses alone. Everybody is compared on the metrics that training defenses exist for, "
            "no defense and its SROCC too.",
            training,
            study.attacked.of(*training).values("metric"),
        ),
    ]


def rules_within(rules: Contest, study: Study, family: Family) -> Contest:
    """Return the rules of a family's ranking: those of the ranking over all settings, on its metrics."""
    clean = study.graded.where(metric=family.metrics) if family.metrics else study.graded
    keeps_order, *other_gates = rules.gates
    wins = rules.protection.wins
    assert wins is not None

    def beside(label: str) -> tuple[np.ndarray, np.ndarray] | None:
        return clean.correlations_beside(label, rules.undefended)

    return replace(
        rules,
        scores=within(rules, family),
        protection=replace(
            rules.protection, wins=replace(wins, id=f"wins-{family.id}", title=f"{wins.title}: {family.title}")
        ),
        utility=replace(rules.utility, value=lambda label: clean.of(label).correlation(resampled=True)),
        gates=(share_of(keeps_order.label, rules.undefended, rules.share, beside, jackknifed=True), *other_gates),
    )


def within(rules: Contest, family: Family) -> Blocks:
    """Return the scores of a family and of the controls, on its metrics."""
    scores, labels = rules.scores, {*family.labels, *rules.controls}
    rows = [i for i, label in enumerate(scores.entries) if label in labels]
    chosen = [
        c for c, facets in enumerate(scores.conditions) if not family.metrics or facets["metric"] in family.metrics
    ]

    def some(name: str) -> Lazy:
        arrays = scores.values[name]
        return Lazy(len(chosen), lambda i: arrays[chosen[i]][rows])

    return Blocks(
        tuple(scores.entries[i] for i in rows),
        tuple(scores.conditions[c] for c in chosen),
        tuple(scores.units[c] for c in chosen),
        {name: some(name) for name in scores.values},
        {name: tuple(facts[c] for c in chosen) for name, facts in scores.about.items()},
    )


def certificates(query: Query, share: float) -> TrackReport:
    """Return the ranking of certified defenses by the order of pairs that they promise; nothing without any.

    The baseline, no defense, promises no pair. `promised` says how an image's share enters, so that the tests of
    differences keep their significance level.
    """
    if not {"certify", "clean"} <= query.steps or "reach" not in query("SELECT * FROM certify LIMIT 0"):
        return TrackReport()
    blocks = query.blocks(
        _PROMISED,
        entry="defense",
        by=["dataset", "metric"],
        unit="unit",
        measures=["score", "low", "high", "reach", "abstained"],
        about=["mos", "sign"],
    )
    if len(blocks.entries) < 2:
        return TrackReport()
    measured = Part.whole(blocks, read_sources(query))
    column = Column(
        "promised",
        f"pairs promised % within {RANKED:g}",
        "How many pairs of images provably keep the order of their smoothed scores, however both are changed within "
        f"Euclidean distance {RANKED:g}. Images are in [0, 1], and the certificates have their confidence.",
        "higher",
        1,
        wins=Wins("wins-certified", "Who promises the order of more pairs", "more pairs promised", unit="image"),
        cluster="photograph",
        unit="image",
        cluster_unit="photograph",
        limits=SHARE,
    )
    rules = Contest(
        scores=promised(measured),
        protection=column,
        utility=replace(UTILITY, value=lambda label: measured.of(label).correlation(resampled=True)),
        undefended=BASELINE,
        words=Words(
            "promises most",
            lambda number: f"{number:.1f} %",
            f"of pairs within {RANKED:g}",
            f"promises the order of more than {{bound}} % of pairs within {RANKED:g}",
        ),
        share=share,
        controls={BASELINE: "no defense"},
        flags=flags_of(query, blocks.entries),
        gates=(
            share_of(
                UTILITY.label,
                BASELINE,
                share,
                lambda label: measured.correlations_beside(label, BASELINE),
                jackknifed=True,
            ),
        ),
    )
    return contest(
        rules,
        id="ranking-certified",
        title="Certified defenses by what they promise",
        caption="Certified defenses alone, on the clean images that were certified. Of all pairs of images the share "
        "whose order no change of either image within the radius can reverse: a promise, whatever the attack, so that "
        "there is one number, and no attacker. No defense promises nothing.",
        entry="defense",
    )


def promised(measured: Part) -> Blocks:
    """Return what each image adds to the share of pairs that are promised, %, as the result of one adaptive attack.

    A pair counts for both of its images; see `_contributions`.
    """
    blocks = computed(measured.blocks, shares)
    values = tuple(map(_contributions, blocks.values[RANKED_SHARE]))
    facets = {"attack": "any change within the radius", "attacker": "adaptive"}
    photographs = tuple(measured.photographs[places] for places in measured.places)
    conditions = tuple({**condition, **facets} for condition in blocks.conditions)
    return Blocks(blocks.entries, conditions, blocks.units, {"promised": values}, {"photograph": photographs})


def _contributions(shares: np.ndarray) -> np.ndarray:
    """Return 2 x - mean(x) for the shares x of each entry ``(entries, images)``; NaN stays.

    The mean stays that of x, and the deviations from it are doubled; `_mean` in `certified_order` says why.
    """
    counts = np.isfinite(shares).sum(axis=1, keepdims=True)
    return 2 * shares - np.nansum(shares, axis=1, keepdims=True) / np.maximum(counts, 1)

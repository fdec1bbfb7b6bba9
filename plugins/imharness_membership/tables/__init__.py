"""Tables of the track, after those of Song & Mittal (USENIX Security 2021)."""

from imharness.tracks import Query, TrackReport
from imharness_membership.tables.cells import figures_of, halves, scores_of
from imharness_membership.tables.contest import ranked_defenses
from imharness_membership.tables.defenses import TEST, attack_accuracy, fact, facts_of, rates, tested_of
from imharness_membership.tables.evaluators import evaluators, thresholds, unseen_of
from imharness_membership.tables.pictures import charts
from imharness_membership.tables.risk import classes, risk, risk_rows
from imharness_membership.tables.vulnerable import agreement, sensitivity


def report(query: Query, share: float = 0.05) -> TrackReport:
    """Return the ranking, in which a winner may lose `share` of the test accuracy, and the study tables."""
    if not {"evaluate", "train"} <= query.steps:
        return TrackReport()
    scores = scores_of(query)
    figures = figures_of(scores)
    parts = halves(scores)
    promised, trained = risk_rows(scores), facts_of(query, scores.entries)
    tables = [
        attack_accuracy(figures, trained),
        evaluators(figures, unseen_of(query)),
        thresholds(figures),
        risk(promised),
        classes(promised),
        agreement(scores),
        *([sensitivity(query)] if "sensitivity" in query.steps else []),
    ]
    others = TrackReport([table for table in tables if table.rows], [], charts(scores))
    return (
        ranked_defenses(query, parts, fact(trained, TEST), tested_of(query, scores.entries), share)
        + rates(parts, trained)
        + others
    )

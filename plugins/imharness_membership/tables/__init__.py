"""Tables of the track, after those of Song & Mittal (USENIX Security 2021)."""

from imharness.tracks import Query, TrackReport
from imharness_membership.tables.cells import figures_of, scores_of
from imharness_membership.tables.defenses import attack_accuracy, facts_of, ranked_defenses
from imharness_membership.tables.evaluators import evaluators, thresholds
from imharness_membership.tables.pictures import charts
from imharness_membership.tables.risk import classes, risk, risk_rows, sensitivity


def report(query: Query) -> TrackReport:
    """Return defenses, evaluators, thresholds, risk scores, classes, and who beats whom."""
    if not {"evaluate", "train"} <= query.steps:
        return TrackReport()
    scores = scores_of(query)
    figures = figures_of(scores)
    promised, trained = risk_rows(scores), facts_of(query, scores.entries)
    tables = [
        attack_accuracy(figures, trained),
        evaluators(figures),
        thresholds(figures),
        risk(promised),
        classes(promised),
        *([sensitivity(query)] if "sensitivity" in query.steps else []),
    ]
    others = TrackReport([table for table in tables if table.rows], [], charts(scores))
    return ranked_defenses(scores, trained) + others

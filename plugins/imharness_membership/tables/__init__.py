"""Tables of the track, after those of Song & Mittal (USENIX Security 2021)."""

from imharness.tracks import Query, TrackReport
from imharness_membership.tables.calibrated import calibrated_rates
from imharness_membership.tables.choice import figures_of_parts, parted
from imharness_membership.tables.contest import ranked_defenses
from imharness_membership.tables.defenses import TEST, attack_accuracy, fact, facts_of, rates, tested_of
from imharness_membership.tables.epochs import by_epoch
from imharness_membership.tables.evaluators import evaluators, thresholds, unseen_of
from imharness_membership.tables.figures import figures_of, scores_of
from imharness_membership.tables.pictures import charts
from imharness_membership.tables.rates import LOW, figures_at, most_non_members, with_reached_rates
from imharness_membership.tables.risk import classes, estimates, priors, risk, risk_rows
from imharness_membership.tables.splits import pools_of
from imharness_membership.tables.vulnerable import agreement, sensitivity, sensitivity_by_score


def report(query: Query, share: float = 0.05, fpr: float = LOW) -> TrackReport:
    """Return the ranking by the true-positive rate at `fpr`, and the study tables, for the steps that have results.

    `share`: the share of the undefended test accuracy that a winner may lose.
    """
    if not {"evaluate", "train"} <= query.steps:
        return TrackReport()
    scores = scores_of(query)
    kinds = with_reached_rates(figures_at(fpr), most_non_members(scores.about["member"]))
    pools = pools_of(query)
    figures = figures_of(scores, kinds, pools=pools)
    # the same, with rows set aside on which evaluators are chosen
    parted_scores = parted(scores)
    part_figures = figures_of_parts(parted_scores, kinds, pools)
    risk_scores, trained = risk_rows(scores), facts_of(query, scores.entries)
    tables = [
        attack_accuracy(figures, trained),
        evaluators(figures, kinds, unseen_of(query)),
        thresholds(figures),
        risk(risk_scores),
        classes(risk_scores),
        estimates(scores),
        priors(scores),
        agreement(scores),
        *([sensitivity(query), sensitivity_by_score(query)] if "sensitivity" in query.steps else []),
    ]
    tested = tested_of(query, scores.entries)
    calibrated = calibrated_rates(query, scores, pools)
    ranked = ranked_defenses(query, part_figures, kinds, fact(trained, TEST), tested, share, calibrated)
    pictures = charts(scores, ranked.tables[0], risk_scores)
    if "by_epoch" in query.steps:
        table, chart = by_epoch(query)
        tables.append(table)
        pictures.append(chart)
    others = TrackReport([table for table in tables if table.rows], [], pictures)
    return ranked + rates(part_figures, kinds, parted_scores, trained, calibrated) + others

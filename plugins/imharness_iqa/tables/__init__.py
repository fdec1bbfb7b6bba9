"""Tables of the track: who wins by the worst attack, then those of Guardians of Image Quality."""

from imharness.tracks import Query, TrackReport
from imharness_iqa.tables import (
    between_metrics,
    breaks,
    certified,
    certified_order,
    compared,
    cost,
    distortion,
    families,
    grouped,
    measured,
    overall,
    parameters,
    pictures,
    robustness,
    sampling,
    strengths,
    subjective,
    trained,
    transfer,
    worst,
)
from imharness_iqa.tables.choice import BOTH_HALVES
from imharness_iqa.tables.data import BASELINE, COMPUTED, load

__all__ = ["BASELINE", "report"]


def report(query: Query, share: float, least: float = 0.0, fewest: int = BOTH_HALVES) -> TrackReport:
    """Return all tables, rankings and charts for which tasks are finished.

    `share`: the largest share of the undefended SROCC that a winner may lose. `least`: the SSIM of D(x) to x that it
    must keep. `fewest`: the number of photographs from which on the best variant of a defense is chosen on half of
    them.
    """
    if "external" not in query.steps and not query.steps >= COMPUTED:
        return TrackReport(tables=compared.tables(query))
    study = load(query, fewest)
    if not study.attacked.conditions:
        return TrackReport(tables=compared.tables(query))
    rules = worst.rules(query, study, share, least)
    gradients = worst.gradients(query)
    ranking = worst.ranking(study, rules, gradients)
    by_family = [
        worst.ranking(study, families.rules_within(rules, study, family), gradients, family)
        for family in families.families(study, rules)
    ]
    order = [row.label for row in ranking.tables[0].rows]
    at_equal_distortion = measured.report(query, study, rules)
    draws = sampling.report(query, study)
    tables = [
        *cost.tables(query, worst.Worst(study, rules)),
        *breaks.tables(study, rules, order, gradients),
        *robustness.tables(study),
        *at_equal_distortion.tables,
        *overall.tables(study),
        *subjective.tables(query, study),
        *trained.tables(study),
        *certified.tables(query, study.note),
        *certified_order.tables(query, study.note),
        *grouped.tables(study, grouped.architectures(query)),
        *parameters.tables(study),
        *transfer.tables(query, study),
        *between_metrics.tables(query, study),
        *draws.tables,
        *distortion.tables(query),
        *strengths.tables(query),
        *compared.tables(query),
    ]
    return sum([*by_family, families.certificates(query, share)], ranking) + TrackReport(
        tables=tables,
        comparisons=overall.comparisons(study),
        charts=[*pictures.charts([*ranking.tables, *tables]), *at_equal_distortion.charts, *draws.charts],
        examples=pictures.examples(query),
    )

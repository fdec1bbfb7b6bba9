"""Tables of the track, after those of Guardians of Image Quality."""

from imharness.tracks import Query, TrackReport
from imharness_iqa.tables import (
    certified,
    distortion,
    grouped,
    overall,
    parameters,
    pictures,
    sampling,
    trained,
    transfer,
)
from imharness_iqa.tables.data import BASELINE, COMPUTED, load

__all__ = ["BASELINE", "report"]


def report(query: Query) -> TrackReport:
    """Return what the finished cells allow."""
    if "external" not in query.steps and not query.steps >= COMPUTED:
        return TrackReport()
    study = load(query)
    if not study.attacked.conditions:
        return TrackReport()
    tables = [
        *overall.tables(study),
        *trained.tables(study),
        *certified.tables(query, study.note),
        *grouped.tables(study),
        *parameters.tables(study),
        *transfer.tables(query, study),
        *sampling.tables(query, study),
        *distortion.tables(query),
    ]
    return TrackReport(
        tables=tables,
        comparisons=overall.comparisons(study),
        charts=pictures.charts(tables),
        examples=pictures.examples(query),
    )

"""Tables of the track, after those of Guardians of Image Quality."""

from harness.api import Query, Table
from harness_iqa.tables import certified, grouped, overall, parameters, sampling, trained, transfer
from harness_iqa.tables.data import BASELINE, load

__all__ = ["BASELINE", "all_tables"]


def all_tables(query: Query) -> list[Table]:
    """Return the tables that the finished cells allow."""
    if "external" not in query.steps and not {"evaluate", "clean", "defended", "attack", "purify"} <= query.steps:
        return []
    study = load(query)
    return [
        *overall.tables(study),
        *trained.tables(study),
        *certified.tables(query, study.note),
        *grouped.tables(study),
        *parameters.tables(study),
        *transfer.tables(query, study),
        *sampling.tables(query, study),
    ]

"""Whether private images are recognised on reconstructions: by people where they were asked, else by the judge."""

from collections.abc import Sequence

from imharness.tracks import Query

RECOGNISED = "recognised"
"""The name that takes a metric's place: 1 where a reconstruction was recognised, 0 where it was not."""
CELL = "dataset, attack, model, defense"
PEOPLE, JUDGE = "people", "top-1 of a classifier, not people"
PROXY = f"proxy: {JUDGE}"


def verdicts(query: Query) -> str:
    """Return a SELECT of judgements: `score` is 1 for recognised, `who` names the judge; "" if nobody was asked.

    People decide on every data set and attack that they were asked about, the judge on the others.
    """
    columns = f"SELECT {CELL}, name, CAST(recognised AS DOUBLE) AS score"
    people, judge = "", ""
    if "external" in query.steps:
        given = set(query("SELECT * FROM external LIMIT 0"))
        if {"recognised", "attack", "model", "defense"} <= given:
            people = f"{columns}, '{PEOPLE}' AS who FROM external"
    if "recognise" in query.steps:
        judge = f"{columns}, '{PROXY}' AS who FROM recognise"
    if people and judge:
        return f"{people} UNION ALL {judge} ANTI JOIN external USING (dataset, attack)"
    return people or judge


def asked(query: Query) -> list[str]:
    """Return who said what is recognised."""
    votes = verdicts(query)
    return sorted(query(f"SELECT DISTINCT who FROM ({votes})")["who"].tolist()) if votes else []


def instead_of_people(who: Sequence[str], metric: str) -> tuple[str, ...]:
    """Return what stands in for people: a classifier where it was asked, the metric that ranks where nobody was."""
    return tuple(JUDGE for own in who if own == PROXY) if who else (f"{metric} for people",)

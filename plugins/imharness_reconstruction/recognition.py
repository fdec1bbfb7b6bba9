"""Reads which reconstructions were recognised: by people where they were asked, else by a classifier, the judge."""

from collections.abc import Sequence

from imharness.tracks import Query

RECOGNISED = "recognised"
"""The name by which recognition is treated as a metric: 1 if a reconstruction was recognised, 0 if not."""
CONDITION = "dataset, attack, model, defense"
"""The columns that identify a group of reconstructions."""
PEOPLE, JUDGE = "people", "top-1 of a classifier, not people"
PROXY = f"proxy: {JUDGE}"
CLASSIFIER = "classifier/top-1"
"""The name by which the judge's recognition is treated as a metric where people were asked, too."""


def verdicts(query: Query) -> str:
    """Return a SELECT of judgements: `score` is 1 for recognised, `who` says who decided; "" if nobody was asked.

    People decide on every data set and attack that they were asked about, the judge on the others.
    """
    columns = f"SELECT {CONDITION}, name, CAST(recognised AS DOUBLE) AS score"
    people, judge = "", ""
    if "external" in query.steps:
        available = set(query("SELECT * FROM external LIMIT 0"))
        if {"recognised", "attack", "model", "defense"} <= available:
            people = f"{columns}, '{PEOPLE}' AS who FROM external WHERE recognised IS NOT NULL"
    if "recognise" in query.steps:
        judge = f"{columns}, '{PROXY}' AS who FROM recognise"
    if people and judge:
        return f"{people} UNION ALL {judge} ANTI JOIN external USING (dataset, attack)"
    return people or judge


def beside_people(query: Query) -> str:
    """Return a SELECT of the judge's answers as scores of the metric `CLASSIFIER`, where people were asked, too.

    It is "" if people were not asked, or no judge was.

    Sun et al. (section 4.4) compare the recognition rates of two classifiers with people's.
    """
    if "recognise" not in query.steps or f"'{PEOPLE}'" not in verdicts(query):
        return ""
    return (
        f"SELECT {CONDITION}, '{CLASSIFIER}' AS metric, name, CAST(recognised AS DOUBLE) AS score "
        "FROM recognise SEMI JOIN (SELECT dataset, attack FROM external WHERE recognised IS NOT NULL) "
        "USING (dataset, attack)"
    )


def judges_of(query: Query) -> list[str]:
    """Return who recognised: `PEOPLE`, `PROXY`, both, or nobody."""
    votes = verdicts(query)
    return sorted(query(f"SELECT DISTINCT who FROM ({votes})")["who"].tolist()) if votes else []


def instead_of_people(who: Sequence[str], metric: str) -> tuple[str, ...]:
    """Return what stands in for people: a classifier where it was asked, the metric that ranks where nobody was."""
    return tuple(JUDGE for judge in who if judge == PROXY) if who else (f"{metric} for people",)


def instead_of_photographs(query: Query) -> tuple[str, ...]:
    """Return which data sets stand in for private photographs, in words."""
    sets = query("SELECT DISTINCT dataset FROM leakage ORDER BY dataset")["dataset"]
    descriptions = {"thumbnails": "thumbnails of a few photographs", "digit-images": "handwritten digits"}
    return tuple(f"{what} for private images" for id, what in descriptions.items() if any(id in name for name in sets))

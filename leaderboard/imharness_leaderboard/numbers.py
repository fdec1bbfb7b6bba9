"""Writes every number of the site to a file.

Each table is written as CSV, JSON and Parquet, each comparison with the scores behind it, and all results as one JSON
file with a schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import SMALL, STAND_IN, brief
from imharness.documents.pairwise import places, weights_of
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Table
from imharness.exports.data import columns_of, csv_bytes, parquet_bytes
from imharness.exports.marks import proxies_of, standing_in, standing_of
from imharness.exports.markup import latex
from imharness.exports.sheets import Sheet, sheet_of
from imharness.results.identity import digest
from imharness.results.labels import settings_of
from imharness.results.version import SCHEMA
from imharness.statistics.bootstrap import ENOUGH, one_sided_alpha
from imharness.statistics.clusters import FEWEST, coded
from imharness.statistics.head_to_head import tie_groups
from imharness_leaderboard.addresses import data_file, vectors_file
from imharness_leaderboard.folder import SiteFolder, json_text
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.wording import facet_text

NOT_SHOWN = ("numbers", "examples", "comparisons")
"""Fields of a leaderboard that ``results.json`` leaves out."""
IN_PAPERS = 60
"""A table with more rows than this is not written as LaTeX."""


def forms_of(table: Table) -> dict[str, str]:
    """Return the forms in which a table is a file: extension -> name; one that is too long for a paper has no LaTeX."""
    forms = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
    return forms | ({"tex": "LaTeX"} if len(table.rows) <= IN_PAPERS else {})


def write_tables(site: SiteFolder, leaderboard: Leaderboard) -> None:
    """Write each table of a leaderboard in its forms, with columns on flags, controls and the like (`standing_in`)."""
    for table in leaderboard.tables:
        standing = {**standing_in(table, leaderboard), **_stand_ins(table)}
        columns = {**columns_of(table), **standing}
        site.write(data_file(leaderboard, table.id, "csv"), csv_bytes(columns))
        facts = {**table.model_dump(mode="json"), "standing": standing}
        site.write(data_file(leaderboard, table.id, "json"), json_text(facts))
        site.write(data_file(leaderboard, table.id, "parquet"), parquet_bytes(columns, table))
        if "tex" in forms_of(table):
            site.write(data_file(leaderboard, table.id, "tex"), latex(_named(sheet_of(table, leaderboard))))


def _stand_ins(table: Table) -> dict[str, list[str]]:
    """Return a column that says of which rows a small network stands in for the published one; none without any."""
    marks = [STAND_IN if SMALL in settings_of(row.label) else "" for row in table.rows]
    return {"stand_in": marks} if any(marks) else {}


def _named(sheet: Sheet) -> Sheet:
    """Return a sheet that names stand-ins as pages do: ``x[backbone=embedded,a=1]`` as ``x[a=1] (stand-in)``."""

    def named(text: str) -> str:
        return re.sub(rf"\[([^\[\]]*){SMALL},?([^\[\]]*)\]", _marked, text)

    lines = tuple(replace(line, label=named(line.label)) for line in sheet.lines)
    notes = tuple((letter, named(text)) for letter, text in sheet.notes)
    remarks = tuple(map(named, sheet.remarks))
    return replace(sheet, lines=lines, notes=notes, remarks=remarks, claim=named(sheet.claim))


def _marked(match: re.Match[str]) -> str:
    others = ",".join(filter(None, (match[1].rstrip(","), match[2])))
    return (f"[{others}]" if others else "") + f" ({STAND_IN})"


def write_results(site: SiteFolder, leaderboards: Sequence[Leaderboard], release: str) -> None:
    """Write ``results.json`` with all leaderboards, and its schema. `release` is empty before publication."""
    documents = [leaderboard.model_dump(mode="json", exclude=set(NOT_SHOWN)) for leaderboard in leaderboards]
    site.write(
        "data/results.json", json_text({"schema_version": SCHEMA, "release": release, "leaderboards": documents})
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Results of the leaderboard, schema version {SCHEMA}",
        "type": "object",
        "required": ["schema_version", "release", "leaderboards"],
        "properties": {
            "schema_version": {"const": SCHEMA},
            "release": {"type": "string"},
            "leaderboards": {"type": "array", "items": {"$ref": "#/$defs/Leaderboard"}},
        },
    }
    leaderboard = Leaderboard.model_json_schema(ref_template="#/$defs/{model}")
    definitions = {**leaderboard.pop("$defs", {}), "Leaderboard": leaderboard}
    for name in NOT_SHOWN:
        leaderboard["properties"].pop(name)
    site.write("data/results.schema.json", json_text({**schema, "$defs": definitions}))


def write_comparisons(site: SiteFolder, leaderboard: Leaderboard, compared: Sequence[Scores], pool: str) -> None:
    """Write what readers need to test for themselves: an index for each comparison, and a file for each entry.

    The name of a file ends in `f32` or `f64`, as the store holds its numbers.
    `pool` names the state of the leaderboard whose tests are corrected together.
    """
    for scores in compared:
        index = data_file(leaderboard, scores.comparison.id, "vectors.json")
        folder = index.removesuffix(".vectors.json")
        size = scores.vectors.dtype.itemsize
        files = [f"{folder}/{i}.f{8 * size}" for i in range(len(scores.comparison.entries))]
        for name, row in zip(files, scores.vectors, strict=True):
            site.make(name, scores.source, np.ascontiguousarray(row, dtype=f"<f{size}").tobytes)
        parent = index.rpartition("/")[0] + "/"
        relative = [name.removeprefix(parent) for name in files]
        facts = _needed_beside(leaderboard, scores.comparison)
        site.make(index, digest([scores.source, pool, facts]), partial(_index, scores, pool, relative, facts))


def _needed_beside(leaderboard: Leaderboard, comparison: Comparison) -> dict[str, object]:
    """Return what the compare page must know besides the scores.

    These are names, which entries are controls, flagged or too costly (`standing`), proxies, which entries may win,
    what the ranking by this comparison says of pairs (`stated`), and the pair that is compared at first (`opened`): the
    first that may win, and the one that all are compared with.
    """
    facets = {value: facet_text(name, value) for c in comparison.conditions for name, value in c.facets.items()}
    ranked = [
        ranking
        for ranking in leaderboard.rankings
        if comparison.id in (ranking.comparison, *ranking.secondary_measures)
    ]
    places = [(label, position) for ranking in ranked for label, position in ranking.places.items()]
    standing = {label: text for label, position in places if (text := standing_of(position))}
    opened = [[ranking.first, ranking.baseline] for ranking in ranked if ranking.first and ranking.baseline]
    return {
        "opened": next((pair for pair in opened if {*pair} <= {*comparison.entries}), []),
        "eligible": sorted({label for label, position in places if position.eligible}),
        "names": facets | {label: brief(label) for label in comparison.entries},
        "standing": standing,
        "stated": next((stated(ranking) for ranking in ranked if ranking.comparison == comparison.id), None),
        "proxies": proxies_of(leaderboard),
    }


def stated(ranking: Ranking) -> dict[str, object]:
    """Return what a ranking says of pairs, which counts before intervals of all pairs, see `Ranking.stated`.

    ``against``: entry -> its verdict and interval against the ``baseline``. ``rivals``: those that the ``winner`` is
    shown to be better than, each by itself.
    """
    against = {label: position.against for label, position in ranking.places.items()}
    return {
        "baseline": ranking.baseline,
        "name": brief(ranking.baseline_name),
        "against": {
            label: {"verdict": gain.verdict, "low": gain.low, "high": gain.high}
            for label, gain in against.items()
            if gain is not None
        },
        "winner": ranking.winner,
        "rivals": [label for label in ranking.places if ranking.stated(ranking.winner, label) == ranking.winner]
        if ranking.winner
        else [],
    }


def _index(scores: Scores, pool: str, files: list[str], fields: dict[str, object]) -> bytes:
    """Return the index of a comparison as JSON; `fields`: what `_needed_beside` returns.

    ``alphas[k]`` is the share of resamples that the interval of a mean over k units or clusters cuts off on each side;
    None where k is too small. Beyond the end of the list, from more than `ENOUGH` on, it is (1 - LEVEL) / 2.
    """
    comparison = scores.comparison
    where = places(comparison)
    sets, units, names = where
    codes, size = coded([] if names is None else names)
    weights = weights_of(comparison, where)
    groups = tie_groups(scores.order, scores.differences.better)
    complete = len(comparison.entries) - len(comparison.incomplete)
    facts = {
        **comparison.model_dump(mode="json", exclude={"unit_sets", "clusters"}),
        "units": units,
        "unit_sets": [unit_set.tolist() for unit_set in sets],
        "clusters": codes.tolist(),
        "cluster_names": list(dict.fromkeys(names.tolist())) if names is not None else [],
        "weights": [] if weights is None else weights.tolist(),
        "alphas": [None if k < FEWEST else one_sided_alpha(k) for k in range(min(size or len(units), ENOUGH) + 1)],
        "starts": comparison.starts(),
        "pool": pool,
        "groups": [[comparison.entries[i] for i in group] for group in groups],
        "pairs": complete * (complete - 1),
        "files": files,
        **fields,
    }
    return json_text(facts).encode()


def comparison_index(leaderboards: Sequence[Leaderboard]) -> list[dict[str, str]]:
    """Return the comparisons that the compare page offers."""
    return [
        {
            "track": leaderboard.title,
            "title": comparison.title,
            "file": vectors_file(leaderboard, comparison.id),
            "entry": comparison.entry,
            "table": data_file(leaderboard, comparison.table or leaderboard.tables[0].id, "json")
            if leaderboard.tables
            else "",
        }
        for leaderboard in leaderboards
        if leaderboard.numbers is not None
        for comparison in leaderboard.comparisons
    ]

"""Writes every number of the site to a file.

Each table is written as CSV, JSON and Parquet, each comparison with the scores behind it, and all results as one JSON
file with a schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from imharness.exports.data import columns_of, csv_bytes, parquet_bytes
from imharness.exports.marks import proxies_of, standing_in, standing_of
from imharness.exports.markup import latex
from imharness.exports.sheets import sheet_of
from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.identity import digest
from imharness.results.tables import Table
from imharness.results.told import places, weights_of
from imharness.results.version import SCHEMA
from imharness.statistics.bootstrap import tail
from imharness.statistics.clusters import FEWEST, coded
from imharness.statistics.head_to_head import tie_groups
from imharness_leaderboard.addresses import data_file
from imharness_leaderboard.folder import SiteFolder, json_text
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.wording import brief, facet_text

NOT_SHOWN = ("numbers", "examples", "comparisons")
"""Fields of a board that ``results.json`` leaves out."""
IN_PAPERS = 60
"""A table with more rows than this is not written as LaTeX."""


def forms_of(table: Table) -> dict[str, str]:
    """Return the forms in which a table is a file: extension -> name; one that is too long for a paper has no LaTeX."""
    found = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}
    return found | ({"tex": "LaTeX"} if len(table.rows) <= IN_PAPERS else {})


def write_tables(site: SiteFolder, board: Board) -> None:
    """Write each table of a board in its forms, each with what its numbers do not say (`standing_in`)."""
    for table in board.tables:
        standing = standing_in(table, board)
        columns = {**columns_of(table), **standing}
        site.write(data_file(board, table.id, "csv"), csv_bytes(columns))
        facts = {**table.model_dump(mode="json"), "standing": standing}
        site.write(data_file(board, table.id, "json"), json_text(facts))
        site.write(data_file(board, table.id, "parquet"), parquet_bytes(columns, table))
        if "tex" in forms_of(table):
            site.write(data_file(board, table.id, "tex"), latex(sheet_of(table, board)))


def write_results(site: SiteFolder, boards: Sequence[Board], release: str) -> None:
    """Write ``results.json`` with all boards, and its schema. `release` is empty for a state that is not published."""
    shown = [board.model_dump(mode="json", exclude=set(NOT_SHOWN)) for board in boards]
    site.write("data/results.json", json_text({"schema_version": SCHEMA, "release": release, "boards": shown}))
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Results of the leaderboard, schema version {SCHEMA}",
        "type": "object",
        "required": ["schema_version", "release", "boards"],
        "properties": {
            "schema_version": {"const": SCHEMA},
            "release": {"type": "string"},
            "boards": {"type": "array", "items": {"$ref": "#/$defs/Board"}},
        },
    }
    board = Board.model_json_schema(ref_template="#/$defs/{model}")
    definitions = {**board.pop("$defs", {}), "Board": board}
    for name in NOT_SHOWN:
        board["properties"].pop(name)
    site.write("data/results.schema.json", json_text({**schema, "$defs": definitions}))


def write_comparisons(site: SiteFolder, board: Board, compared: Sequence[Scores], pool: str) -> None:
    """Write what readers need to test for themselves: an index for each comparison, and a float32 file for each entry.

    `pool` names the state of the leaderboard whose tests are corrected together.
    """
    for scores in compared:
        index = data_file(board, scores.comparison.id, "vectors.json")
        folder = index.removesuffix(".vectors.json")
        files = [f"{folder}/{i}.f32" for i in range(len(scores.comparison.entries))]
        for name, row in zip(files, scores.vectors, strict=True):
            site.make(name, scores.source, np.ascontiguousarray(row, dtype="<f4").tobytes)
        parent = index.rpartition("/")[0] + "/"
        relative = [name.removeprefix(parent) for name in files]
        said = _said(board, scores.comparison)
        site.make(index, digest([scores.source, pool, said]), partial(_index, scores, pool, relative, said))


def _said(board: Board, comparison: Comparison) -> dict[str, object]:
    """Return what readers must know beside the scores: names, what is a control, flagged or too costly, and proxies."""
    facets = {value: facet_text(*own) for c in comparison.conditions for own in c.facets.items() for value in own[1:]}
    ranked = [own for own in board.rankings if comparison.id in (own.comparison, *own.yardsticks)]
    places = [(label, place) for own in ranked for label, place in own.places.items()]
    standing = {label: text for label, place in places if (text := standing_of(place))}
    return {
        "names": facets | {label: brief(label) for label in comparison.entries},
        "standing": standing,
        "proxies": proxies_of(board),
    }


def _index(scores: Scores, pool: str, files: list[str], said: dict[str, object]) -> bytes:
    comparison = scores.comparison
    where = places(comparison)
    sets, units, names = where
    codes, size = coded([] if names is None else names)
    weights = weights_of(comparison, where)
    groups = tie_groups(scores.order, scores.told.better)
    compared = len(comparison.entries) - len(comparison.incomplete)
    facts = {
        **comparison.model_dump(mode="json", exclude={"unit_sets", "clusters"}),
        "units": units,
        "unit_sets": [own.tolist() for own in sets],
        "clusters": codes.tolist(),
        "cluster_names": list(dict.fromkeys(names.tolist())) if names is not None else [],
        "weights": [] if weights is None else weights.tolist(),
        "tails": [None if k < FEWEST else tail(k) for k in range(size + 1)],
        "starts": comparison.starts(),
        "pool": pool,
        "groups": [[comparison.entries[i] for i in group] for group in groups],
        "pairs": compared * (compared - 1),
        "files": files,
        **said,
    }
    return json_text(facts).encode()


def comparison_index(boards: Sequence[Board]) -> list[dict[str, str]]:
    """Return the comparisons that the compare page offers."""
    return [
        {
            "track": board.title,
            "title": comparison.title,
            "file": data_file(board, comparison.id, "vectors.json"),
            "entry": comparison.entry,
            "table": data_file(board, comparison.table or board.tables[0].id, "json") if board.tables else "",
        }
        for board in boards
        for comparison in board.comparisons
    ]

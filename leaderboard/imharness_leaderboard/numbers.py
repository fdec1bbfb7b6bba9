"""Every number as a file: CSV, JSON and Parquet of each table, vectors of each comparison, all results with schema."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from imharness.ranking.statistics.head_to_head import tie_groups
from imharness.results.identity import digest
from imharness.results.records import SCHEMA, Board, Table
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.naming import data_file, json_text
from imharness_leaderboard.scores import Scores

PARTS = ("", " low", " high", " n", " missing")


def write_tables(site: SiteFolder, board: Board) -> None:
    """Write each table of a board in three forms."""
    for table in board.tables:
        columns = _columns(table)
        site.write(data_file(board, table.id, "csv"), _csv(columns))
        site.write(data_file(board, table.id, "json"), json_text(table.model_dump(mode="json")))
        site.write(data_file(board, table.id, "parquet"), _parquet(columns, table))


def write_results(site: SiteFolder, boards: Sequence[Board], release: str) -> None:
    """Write all boards as one file, and the schema of that file."""
    shown = [board.model_dump(mode="json", exclude={"numbers", "examples", "comparisons"}) for board in boards]
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
    for name in ("numbers", "examples", "comparisons"):
        board["properties"].pop(name)
    site.write("data/results.schema.json", json_text({**schema, "$defs": definitions}))


def write_comparisons(site: SiteFolder, board: Board, compared: Sequence[Scores], pool: str) -> None:
    """Write what readers test for themselves: an index per comparison and a float32 file per entry."""
    for scores in compared:
        index = data_file(board, scores.comparison.id, "vectors.json")
        folder = index.removesuffix(".vectors.json")
        files = [f"{folder}/{i}.f32" for i in range(len(scores.comparison.entries))]
        for name, row in zip(files, scores.vectors, strict=True):
            site.make(name, scores.source, lambda row=row: np.ascontiguousarray(row, dtype="<f4").tobytes())  # type: ignore[misc]
        inside = index.rpartition("/")[0] + "/"
        named = [name.removeprefix(inside) for name in files]
        site.make(index, digest([scores.source, pool]), lambda scores=scores, named=named: _index(scores, pool, named))  # type: ignore[misc]


def _index(scores: Scores, pool: str, files: list[str]) -> bytes:
    comparison, tested = scores.comparison, scores.tested
    units = sorted({unit for names in comparison.unit_sets for unit in names})
    place = {unit: i for i, unit in enumerate(units)}
    groups = tie_groups(tested.order, tested.beats(comparison.alpha))
    facts = {
        **comparison.model_dump(mode="json", exclude={"unit_sets"}),
        "units": units,
        "unit_sets": [[place[unit] for unit in names] for names in comparison.unit_sets],
        "starts": comparison.starts(),
        "pool": pool,
        "groups": [[comparison.entries[i] for i in group] for group in groups],
        "pairs": int(np.sum(~np.isnan(tested.p))),
        "files": files,
    }
    return json_text(facts).encode()


def comparison_index(boards: Sequence[Board]) -> list[dict[str, str]]:
    """Return what the comparing page can choose from."""
    return [
        {
            "track": b.title,
            "title": c.title,
            "file": data_file(b, c.id, "vectors.json"),
            "entry": c.entry,
            "table": data_file(b, c.table or b.tables[0].id, "json") if b.tables else "",
        }
        for b in boards
        for c in b.comparisons
    ]


def _columns(table: Table) -> dict[str, list[object]]:
    """Return a table as columns: the label, facets, and per number its value, interval, n and reason when missing."""
    facets = list(dict.fromkeys(name for row in table.rows for name in row.facets))
    found: dict[str, list[object]] = {table.entry: [row.label for row in table.rows]}
    found |= {f"facet {name}": [row.facets.get(name, "") for row in table.rows] for name in facets}
    for column in table.columns:
        values = [row.values.get(column.key) for row in table.rows]
        parts = ([getattr(v, name) if v else None for v in values] for name in ("value", "low", "high", "n", "missing"))
        found |= {column.label + suffix: part for suffix, part in zip(PARTS, parts, strict=True)}
    return {name: column for name, column in found.items() if any(v not in (None, "") for v in column)}


def _rows(columns: Mapping[str, list[object]]) -> Iterator[tuple[object, ...]]:
    return zip(*columns.values(), strict=True)


def _csv(columns: Mapping[str, list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(v) for v in row] for row in _rows(columns))
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value as a spreadsheet may open it: text that would be taken for a formula is quoted."""
    if value is None:
        return ""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def _parquet(columns: Mapping[str, list[object]], table: Table) -> bytes:
    facts = {"title": table.title, "caption": table.caption, "schema_version": str(SCHEMA)}
    made = pa.table({name: pa.array(values) for name, values in columns.items()})
    out = io.BytesIO()
    pq.write_table(made.replace_schema_metadata(facts), out, compression="zstd")
    return out.getvalue()

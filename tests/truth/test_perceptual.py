"""Studies of distances with a known answer: what people agree on, distances that copy people, distances of noise."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from PIL import Image

from imharness.results.blocks import Blocks, made_of
from imharness.tracks import Row, Table, TrackReport
from imharness_cli import cli
from imharness_perceptual.tables import report

JUDGES = 5
NEAR, FAR = 110, 150
"""Shades of two alternatives to a reference of shade 100."""


class Simulated:
    """Finished results of the track that no run computed: the rows of its steps."""

    def __init__(self, **steps: Iterable[Mapping[str, Any]]) -> None:
        self._db = duckdb.connect(":memory:")
        self.steps = frozenset(steps)
        for name, rows in steps.items():
            lines = list(rows)
            self._db.register(name, pa.table({key: [row[key] for row in lines] for key in lines[0]}))

    def _select(self, sql: str) -> pa.Table | None:
        found = self._db.sql(sql)
        return None if found is None else found.to_arrow_table()

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return made_of(self._select, sql, **columns)

    def __call__(self, sql: str) -> dict[str, np.ndarray]:
        return {name: column.to_numpy() for name, column in zip(*_columns(self._select(sql)), strict=True)}


def _columns(found: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return found.column_names, found.columns


def choices(
    distances: Mapping[str, np.ndarray],
    share: np.ndarray,
    *,
    family: str = "noise",
    sources: np.ndarray | None = None,
    judges: int = JUDGES,
    proxy: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of forced choices: metric -> distances ``(n, 2)``, and the share that found 1 nearer ``(n,)``."""
    rows = []
    for metric, pairs in distances.items():
        for i, (own, p) in enumerate(zip(pairs, share, strict=True)):
            group = f"{family}/{i:04d}"
            fixed = {"metric": metric, "dataset": "judged", "reference": f"{group}/ref", "family": family,
                     "severity": np.nan, "same": np.nan, "mos": np.nan, "proxy": proxy,
                     "source": f"{group}/ref" if sources is None else str(sources[i])}  # fmt: skip
            nobody = {"group": "", "choice": -1, "judge": np.nan, "judges": 0}
            rows.append({**fixed, "name": f"{group}/ref", **nobody, "distance": 0.0})
            for choice in (0, 1):
                asked = {"group": group, "choice": choice, "judge": p, "judges": judges}
                rows.append({**fixed, "name": f"{group}/p{choice}", **asked, "distance": own[choice]})
    return rows


def preferring(second: np.ndarray) -> np.ndarray:
    """Return distances ``(n, 2)`` that find alternative 1 nearer where `second` is True."""
    return np.where(np.asarray(second, dtype=bool)[:, None], [[1.0, 0.0]], [[0.0, 1.0]])


def table(found: TrackReport, name: str) -> Table:
    return next(t for t in found.tables if t.id == name)


def rows_of(found: TrackReport, name: str = "agreement") -> dict[str, Row]:
    return {row.label: row for row in table(found, name).rows}


def test_unanimous_choices_count_towards_what_people_reach() -> None:
    rng, n = np.random.default_rng(0), 4000
    known = rng.choice([0.02, 0.3, 0.95], n)  # the chance that a person finds alternative 1 nearer
    votes = rng.random((n, JUDGES)) < known[:, None]
    share = votes.mean(axis=1)
    assert np.mean((share == 0) | (share == 1)) > 0.4
    copied = {"harness/copy": preferring(votes[:, 0]), "harness/other": preferring(rng.random(n) < known)}
    shown = rows_of(report(Simulated(distance=choices(copied, share))))
    people = shown["people"].values["all"]
    assert people.n == n
    assert people.value == pytest.approx(np.mean(share**2 + (1 - share) ** 2))
    copy = shown["harness/copy"].values["all"].value
    assert copy is not None
    assert people.value == pytest.approx(copy, abs=3 * 0.4 / np.sqrt(n))

"""Studies of distances with a known answer: what people agree on, distances that copy people, distances of noise."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.results.blocks import Blocks
from imharness.results.rows import made_of
from imharness.tables import Row, Table
from imharness.tracks import TrackReport
from imharness_perceptual.tables import report

JUDGES = 5
NEAR, FAR = 110, 150
"""Shades of two alternatives to a reference of shade 100."""


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


class Simulated:
    """Finished results of the track that no run computed: the rows of its steps."""

    def __init__(self, **steps: Iterable[Mapping[str, Any]]) -> None:
        self._db = database().cursor()  # its tables are its own
        self.steps = frozenset(steps)
        for name, rows in steps.items():
            lines = list(rows)
            self._db.register(name, pa.table({key: [row[key] for row in lines] for key in lines[0]}))

    def _select(self, sql: str) -> pa.Table | None:
        found = self._db.sql(sql)
        return None if found is None else found.to_arrow_table()

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return made_of(lambda select: self._select(select).to_batches(), sql, **columns)

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
            fixed = {
                "metric": metric,
                "dataset": "judged",
                "reference": f"{group}/ref",
                "family": family,
                "severity": np.nan,
                "same": np.nan,
                "mos": np.nan,
                "proxy": proxy,
                "photograph": f"{group}/ref" if sources is None else str(sources[i]),
            }
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
    copies = {
        "harness/asked": preferring(votes[:, 0]),
        "harness/not-asked": preferring(rng.random(n) < known),
        "harness/most": preferring(share > 0.5),
    }
    shown = {
        label: row.values["all"] for label, row in rows_of(report(Simulated(distance=choices(copies, share)))).items()
    }
    assert shown["people"].n == n
    error = 4 * 0.4 / np.sqrt(n)
    assert shown["another person"].value == pytest.approx(np.mean(known**2 + (1 - known) ** 2), abs=error)
    assert shown["people"].value == pytest.approx(shown["harness/asked"].value, abs=error)
    assert shown["another person"].value == pytest.approx(shown["harness/not-asked"].value, abs=error)
    assert shown["majority of people"].value == pytest.approx(shown["harness/most"].value)


def test_nobody_stands_for_people_where_a_proxy_chose() -> None:
    copied = {"harness/copy": preferring(np.zeros(20))}
    rows = choices(copied, np.zeros(20), judges=0, proxy="the order of strengths")
    shown = rows_of(report(Simulated(distance=rows)))
    assert list(shown) == ["harness/copy"]
    assert shown["harness/copy"].values["all"].value == 1


def test_the_first_column_is_the_mean_of_the_families() -> None:
    large = choices({"harness/a": preferring(np.zeros(90)), "harness/b": preferring(np.ones(90))}, np.zeros(90))
    small = choices(
        {"harness/a": preferring(np.ones(10)), "harness/b": preferring(np.ones(10))}, np.zeros(10), family="blur"
    )
    shown = rows_of(report(Simulated(distance=[*large, *small])))
    assert shown["harness/a"].values["all"].value == pytest.approx(0.5)
    assert shown["harness/b"].values["all"].value == pytest.approx(0.0)
    assert shown["people"].values["all"].value == pytest.approx(1.0)
    assert (shown["harness/a"].values["noise"].n, shown["harness/a"].values["all"].n) == (90, 100)


def test_a_distance_without_numbers_on_a_family_has_no_mean_and_stands_last() -> None:
    large = choices({"harness/a": preferring(np.zeros(9)), "harness/b": preferring(np.ones(9))}, np.zeros(9))
    small = choices({"harness/b": preferring(np.ones(9))}, np.zeros(9), family="blur")
    found = table(report(Simulated(distance=[*large, *small])), "agreement")
    assert [row.label for row in found.rows[:2]] == ["harness/b", "harness/a"]
    assert found.rows[1].values["all"].missing == "no number on blur"


def test_noise_is_at_chance_and_its_interval_covers_it() -> None:
    """Photographs differ in how lucky a distance of noise is: choices of one photograph are correlated."""
    rng, seeds, photographs = np.random.default_rng(0), 200, 12
    sources = np.repeat([f"p{i:02d}" for i in range(photographs)], 8)
    covered, means = [], []
    for part in np.split(np.arange(seeds), 10):
        lucky = {f"harness/noise-{seed:03d}": np.repeat(rng.random(photographs), 8) for seed in part}
        rows = [
            row
            for family in ("blur", "noise")
            for row in choices(
                {metric: preferring(rng.random(len(sources)) > chance) for metric, chance in lucky.items()},
                np.zeros(len(sources)),
                family=family,
                sources=sources,
            )
        ]
        shown = rows_of(report(Simulated(distance=rows)))
        for value in (shown[metric].values["all"] for metric in lucky):
            assert (value.n, value.clusters) == (2 * len(sources), photographs)
            covered.append(value.low <= 0.5 <= value.high)
            means.append(value.value)
    assert np.mean(means) == pytest.approx(0.5, abs=4 * np.std(means) / np.sqrt(seeds))
    assert 0.9 <= np.mean(covered) <= 0.99


def opinions(rng: np.random.Generator, copies: int) -> list[dict[str, Any]]:
    """Return distances of 8 photographs with two images each, that people saw or scored, every row `copies` times."""
    rows = []
    fixed = {
        "metric": "harness/a",
        "severity": np.nan,
        "group": "",
        "choice": -1,
        "judge": np.nan,
        "judges": 3,
        "proxy": "",
    }
    for photograph in range(8):
        for image in range(2):
            seen, scored = rng.integers(0, 4) / 3, rng.random()
            distance = rng.random(2)
            for copy in range(copies):
                for i, (dataset, same, mos) in enumerate((("jnd", seen, np.nan), ("scored", np.nan, scored))):
                    name = f"{photograph}-{image}-{copy}"
                    rows.append(
                        {
                            **fixed,
                            "dataset": dataset,
                            "name": name,
                            "reference": f"{photograph}",
                            "photograph": f"{photograph}",
                            "family": f"f{image}",
                            "same": same,
                            "mos": mos,
                            "distance": distance[i],
                        }
                    )
    return rows


@pytest.mark.parametrize(("name", "column"), [("jnd", "map"), ("opinions", "scored")])
def test_copies_of_images_of_the_same_photographs_do_not_narrow_an_interval(name: str, column: str) -> None:
    once, often = (
        rows_of(report(Simulated(distance=opinions(np.random.default_rng(1), copies))), name)["harness/a"].values[
            column
        ]
        for copies in (1, 5)
    )
    assert (once.n, once.clusters) == (16, 8)
    assert (often.n, often.clusters) == (80, 8)
    assert (often.value, often.low, often.high) == pytest.approx((once.value, once.low, once.high))


def attacked(distance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an attack on three severities of one distortion of six photographs."""
    rows = []
    for metric, unit in distance.items():
        for photograph in range(6):
            for severity in (1, 2, 3):
                moved = severity + (0.6 if photograph else 1.2)
                rows.append(
                    {
                        "metric": metric,
                        "dataset": "ladder",
                        "attack": "ball",
                        "radius": "4",
                        "along": "own",
                        "name": f"{photograph}-{severity}",
                        "reference": f"{photograph}",
                        "photograph": f"{photograph}",
                        "family": "blur",
                        "severity": severity,
                        "before": unit(severity),
                        "after": unit(moved),
                    }
                )
    return rows


def test_the_unit_of_a_distance_does_not_move_its_place_under_attack() -> None:
    units = {"harness/mse": float, "harness/psnr": lambda d: 10 * np.log10(d) - 60, "harness/l2": np.sqrt}
    rows = attacked(units)
    lost = {"harness/nan": lambda d: float(d) if d != 1.6 else float("nan")}
    known = choices({metric: preferring(np.zeros(3)) for metric in (*units, *lost)}, np.zeros(3))
    found = table(report(Simulated(distance=known, attack=[*rows, *attacked(lost)])), "attacked")
    assert found.ranked_by == "right-4"
    shown = {row.label: row.values["right-4"] for row in found.rows}
    for metric in units:
        assert shown[metric].value == pytest.approx(10 / 12)
        assert (shown[metric].n, shown[metric].clusters) == (12, 6)
    assert shown["harness/nan"].value == pytest.approx(5 / 7)
    assert shown["harness/nan"].n == 7


def test_the_worst_of_several_attacks_counts_image_by_image() -> None:
    """One attack moves the distances of even photographs by half, another those of odd ones; no attack moves both."""
    rows = []
    for attack, odd in (("a", 0), ("b", 1)):
        for row in attacked({"harness/mse": float}):
            moved = 1.5 if int(row["photograph"]) % 2 == odd else 1.0
            rows.append(row | {"attack": attack, "after": moved * row["before"]})
    known = choices({"harness/mse": preferring(np.zeros(3))}, np.zeros(3))
    found = table(report(Simulated(distance=known, attack=rows)), "attacked").rows[0].values["moved-4"]
    assert found.value == pytest.approx(0.5)
    assert (found.n, found.clusters) == (18, 6)


def test_an_attack_that_met_no_image_gives_no_table() -> None:
    known = choices({"harness/mse": preferring(np.zeros(3))}, np.zeros(3))
    empty = {
        name: value for name, value in attacked({"harness/mse": float})[0].items() if name not in ("before", "after")
    }
    found = report(Simulated(distance=known, attack=[empty]))
    assert "attacked" not in {own.id for own in found.tables}


def test_a_whole_study_gives_what_its_people_know(tmp_path: Path, no_site: None) -> None:
    """Grey patches: by MSE, family "asked" copies one of the judges and "another" a person who was not asked."""
    rng, n, known = np.random.default_rng(3), 120, 0.8
    votes = rng.random((n, JUDGES)) < known
    folder = tmp_path / "bapps" / "2afc" / "val"
    copied = {"asked": votes[:, 0], "another": rng.random(n) < known, "most": votes.mean(axis=1) > 0.5}
    for family, nearer in copied.items():
        for part in ("ref", "p0", "p1", "judge"):
            (folder / family / part).mkdir(parents=True)
        for i, second in enumerate(nearer):
            for part, shade in (("ref", 100), ("p0", FAR if second else NEAR), ("p1", NEAR if second else FAR)):
                Image.new("RGB", (16, 16), (shade, shade, shade)).save(folder / family / part / f"{i:03d}.png")
            np.save(folder / family / "judge" / f"{i:03d}.npy", np.array([votes[i].mean()], dtype=np.float32))
    store = tmp_path / "store"
    words = ["run", "--track", "perceptual", "--metric", "mse", "--attack", "square", "--workers", "0"]
    place = ["--dataset", f"bapps[path={tmp_path / 'bapps'},size=16]", "--store", str(store)]
    result = CliRunner().invoke(cli, [*words, *place, "--site", str(tmp_path / "site")])
    assert "0 failed" in result.output, result.output
    found = json.loads(next((store / "boards").glob("*.json")).read_text())["tables"]
    rows = {row["label"]: row["values"] for row in next(t for t in found if t["id"] == "agreement")["rows"]}
    error = 4 * 0.4 / np.sqrt(n)
    assert rows["another person"]["another"]["value"] == pytest.approx(known**2 + (1 - known) ** 2, abs=error)
    assert rows["harness/mse"]["another"]["value"] == pytest.approx(known**2 + (1 - known) ** 2, abs=error)
    assert rows["harness/mse"]["asked"]["value"] == pytest.approx(rows["people"]["asked"]["value"], abs=error)
    assert rows["harness/mse"]["most"]["value"] == pytest.approx(rows["majority of people"]["most"]["value"])
    assert rows["people"]["all"]["n"] == 3 * n

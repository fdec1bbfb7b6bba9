"""Studies of distances with known answers: agreement of people, distances that copy people, and guesses."""

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
from imharness.leaderboard import Row, Table
from imharness.results.blocks import Blocks
from imharness.results.rows import made_of
from imharness.tracks import TrackReport
from imharness_perceptual.reversed_judgements import VOTES, followed_votes, said_of_agreements
from imharness_perceptual.tables import report
from imharness_perceptual.verdicts import credit

JUDGES = 5
NEAR, FAR = 110, 150
"""Shades of two alternatives to a reference of shade 100."""


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


class Simulated:
    """Finished results of the track that no run computed: the rows of its steps."""

    def __init__(self, **steps: Iterable[Mapping[str, Any]]) -> None:
        self._db = database().cursor()  # a cursor has its own tables
        self.steps = frozenset(steps)
        for name, rows in steps.items():
            lines = list(rows)
            self._db.register(name, pa.table({key: [row[key] for row in lines] for key in lines[0]}))

    def _select(self, sql: str) -> pa.Table | None:
        relation = self._db.sql(sql)
        return None if relation is None else relation.to_arrow_table()

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return made_of(lambda select: self._select(select).to_batches(), sql, **columns)

    def __call__(self, sql: str) -> dict[str, np.ndarray]:
        return {name: column.to_numpy() for name, column in zip(*_columns(self._select(sql)), strict=True)}


def _columns(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns


def choices(
    distances: Mapping[str, np.ndarray],
    share: np.ndarray,
    *,
    family: str = "noise",
    sources: np.ndarray | None = None,
    judges: int = JUDGES,
    proxy: str = "",
) -> list[dict[str, Any]]:
    """Return the rows of forced choices between alternatives 0 and 1.

    Args:
        distances: metric -> its distances of both alternatives ``(n, 2)``.
        share: the share of people that found alternative 1 nearer ``(n,)``.
        family: the name of the distortions.
        sources: the photograph of each choice; by default each has its own.
        judges: how many people judged a choice; 0 if none did.
        proxy: what chose in place of people, empty if people did.
    """
    rows = []
    for metric, pairs in distances.items():
        for i, (pair_distances, p) in enumerate(zip(pairs, share, strict=True)):
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
                question = {"group": group, "choice": choice, "judge": p, "judges": judges}
                rows.append({**fixed, "name": f"{group}/p{choice}", **question, "distance": pair_distances[choice]})
    return rows


def preferring(second: np.ndarray) -> np.ndarray:
    """Return distances ``(n, 2)`` that find alternative 1 nearer where `second` is True."""
    return np.where(np.asarray(second, dtype=bool)[:, None], [[1.0, 0.0]], [[0.0, 1.0]])


def table(result: TrackReport, name: str) -> Table:
    return next(t for t in result.tables if t.id == name)


def rows_of(result: TrackReport, name: str = "agreement") -> dict[str, Row]:
    return {row.label: row for row in table(result, name).rows}


def test_unanimous_choices_count_towards_what_people_reach() -> None:
    rng, n = np.random.default_rng(0), 4000
    chances = rng.choice([0.02, 0.3, 0.95], n)  # the chance that a person finds alternative 1 nearer
    votes = rng.random((n, JUDGES)) < chances[:, None]
    share = votes.mean(axis=1)
    assert np.mean((share == 0) | (share == 1)) > 0.4
    copies = {
        "harness/asked": preferring(votes[:, 0]),
        "harness/not-asked": preferring(rng.random(n) < chances),
        "harness/most": preferring(share > 0.5),
    }
    values = {
        label: row.values["all"] for label, row in rows_of(report(Simulated(distance=choices(copies, share)))).items()
    }
    assert values["people"].n == n
    error = 4 * 0.4 / np.sqrt(n)
    assert values["another person"].value == pytest.approx(np.mean(chances**2 + (1 - chances) ** 2), abs=error)
    assert values["people"].value == pytest.approx(values["harness/asked"].value, abs=error)
    assert values["another person"].value == pytest.approx(values["harness/not-asked"].value, abs=error)
    assert values["majority of people"].value == pytest.approx(values["harness/most"].value)


def test_nobody_stands_for_people_where_a_proxy_chose() -> None:
    copied = {"harness/copy": preferring(np.zeros(20))}
    rows = choices(copied, np.zeros(20), judges=0, proxy="the order of strengths")
    rows_by_label = rows_of(report(Simulated(distance=rows)))
    assert list(rows_by_label) == ["harness/copy"]
    assert rows_by_label["harness/copy"].values["all"].value == 1


def test_the_first_column_is_the_mean_of_the_families() -> None:
    large = choices({"harness/a": preferring(np.zeros(90)), "harness/b": preferring(np.ones(90))}, np.zeros(90))
    small = choices(
        {"harness/a": preferring(np.ones(10)), "harness/b": preferring(np.ones(10))}, np.zeros(10), family="blur"
    )
    rows_by_label = rows_of(report(Simulated(distance=[*large, *small])))
    assert rows_by_label["harness/a"].values["all"].value == pytest.approx(0.5)
    assert rows_by_label["harness/b"].values["all"].value == pytest.approx(0.0)
    assert rows_by_label["people"].values["all"].value == pytest.approx(1.0)
    assert (rows_by_label["harness/a"].values["noise"].n, rows_by_label["harness/a"].values["all"].n) == (90, 100)


def test_a_distance_without_numbers_on_a_family_has_no_mean_and_stands_last() -> None:
    large = choices({"harness/a": preferring(np.zeros(9)), "harness/b": preferring(np.ones(9))}, np.zeros(9))
    small = choices({"harness/b": preferring(np.ones(9))}, np.zeros(9), family="blur")
    agreement = table(report(Simulated(distance=[*large, *small])), "agreement")
    assert [row.label for row in agreement.rows[:2]] == ["harness/b", "harness/a"]
    assert agreement.rows[1].values["all"].missing == "no number on blur"


def test_noise_is_at_chance_and_its_interval_covers_it() -> None:
    """A distance that guesses is right more often on some photographs: choices of one photograph are correlated."""
    rng, seeds, photographs = np.random.default_rng(0), 200, 12
    sources = np.repeat([f"p{i:02d}" for i in range(photographs)], 8)
    covered, means = [], []
    for block in np.split(np.arange(seeds), 10):
        lucky = {f"harness/noise-{seed:03d}": np.repeat(rng.random(photographs), 8) for seed in block}
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
        rows_by_label = rows_of(report(Simulated(distance=rows)))
        for value in (rows_by_label[metric].values["all"] for metric in lucky):
            assert (value.n, value.clusters) == (2 * len(sources), photographs)
            covered.append(value.low <= 0.5 <= value.high)
            means.append(value.value)
    assert np.mean(means) == pytest.approx(0.5, abs=4 * np.std(means) / np.sqrt(seeds))
    assert 0.9 <= np.mean(covered) <= 0.99


def opinions(rng: np.random.Generator, copies: int) -> list[dict[str, Any]]:
    """Return distances with judgments and opinion scores, of 8 photographs with two images, each row `copies` times."""
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
    """Return the rows of an attack on three severities of one distortion of six photographs.

    `distance`: metric -> a function of the true distance, which is the severity and rises by 0.6, or 1.2 for photograph
    0, under the attack.
    """
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
    distances = choices({metric: preferring(np.zeros(3)) for metric in (*units, *lost)}, np.zeros(3))
    attacked_table = table(report(Simulated(distance=distances, attack=[*rows, *attacked(lost)])), "attacked")
    assert attacked_table.ranked_by == "right-4"
    values = {row.label: row.values["right-4"] for row in attacked_table.rows}
    for metric in units:
        assert values[metric].value == pytest.approx(10 / 12)
        assert (values[metric].n, values[metric].clusters) == (12, 6)
    assert values["harness/nan"].value == pytest.approx(5 / 7)
    assert values["harness/nan"].n == 7


def test_the_worst_of_several_attacks_counts_image_by_image() -> None:
    """Attack "a" raises the distances of even photographs by half, and "b" those of odd ones."""
    rows = []
    for attack, odd in (("a", 0), ("b", 1)):
        for row in attacked({"harness/mse": float}):
            moved = 1.5 if int(row["photograph"]) % 2 == odd else 1.0
            rows.append(row | {"attack": attack, "after": moved * row["before"]})
    distances = choices({"harness/mse": preferring(np.zeros(3))}, np.zeros(3))
    value = table(report(Simulated(distance=distances, attack=rows)), "attacked").rows[0].values["moved-4"]
    assert value.value == pytest.approx(0.5)
    assert (value.n, value.clusters) == (18, 6)


def test_an_attack_that_met_no_image_gives_no_table() -> None:
    distances = choices({"harness/mse": preferring(np.zeros(3))}, np.zeros(3))
    empty = {
        name: value for name, value in attacked({"harness/mse": float})[0].items() if name not in ("before", "after")
    }
    result = report(Simulated(distance=distances, attack=[empty]))
    assert "attacked" not in {table_entry.id for table_entry in result.tables}


def test_a_whole_study_gives_what_its_people_know(tmp_path: Path, no_site: None) -> None:
    """Grey patches: by MSE, family "asked" copies a judge, "another" a further person, "most" the majority."""
    rng, n, chance = np.random.default_rng(3), 120, 0.8
    votes = rng.random((n, JUDGES)) < chance
    folder = tmp_path / "bapps" / "2afc" / "val"
    copied = {"asked": votes[:, 0], "another": rng.random(n) < chance, "most": votes.mean(axis=1) > 0.5}
    for family, nearer in copied.items():
        for subfolder in ("ref", "p0", "p1", "judge"):
            (folder / family / subfolder).mkdir(parents=True)
        for i, second in enumerate(nearer):
            for subfolder, shade in (("ref", 100), ("p0", FAR if second else NEAR), ("p1", NEAR if second else FAR)):
                Image.new("RGB", (16, 16), (shade, shade, shade)).save(folder / family / subfolder / f"{i:03d}.png")
            np.save(folder / family / "judge" / f"{i:03d}.npy", np.array([votes[i].mean()], dtype=np.float32))
    store = tmp_path / "store"
    words = ["run", "--track", "perceptual", "--metric", "mse", "--attack", "square", "--workers", "0"]
    options = ["--dataset", f"bapps[path={tmp_path / 'bapps'},size=16]", "--store", str(store)]
    result = CliRunner().invoke(cli, [*words, *options, "--site", str(tmp_path / "site")])
    assert "none failed" in result.output, result.output
    tables = json.loads(next((store / "leaderboards").glob("*.json")).read_text())["tables"]
    rows = {row["label"]: row["values"] for row in next(t for t in tables if t["id"] == "agreement")["rows"]}
    error = 4 * 0.4 / np.sqrt(n)
    assert rows["another person"]["another"]["value"] == pytest.approx(chance**2 + (1 - chance) ** 2, abs=error)
    assert rows["harness/mse"]["another"]["value"] == pytest.approx(chance**2 + (1 - chance) ** 2, abs=error)
    assert rows["harness/mse"]["asked"]["value"] == pytest.approx(rows["people"]["asked"]["value"], abs=error)
    assert rows["harness/mse"]["most"]["value"] == pytest.approx(rows["majority of people"]["most"]["value"])
    assert rows["people"]["all"]["n"] == 3 * n


def _people(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return distances ``(n, 2)`` of three metrics, and the share of people that found alternative 1 nearer.

    People follow the first metric. The second one is noise; the third is the same for all images.
    """
    rng = np.random.default_rng(seed)
    seen = rng.lognormal(size=(n, 2))
    share = rng.binomial(JUDGES, seen[:, 0] / seen.sum(axis=1)) / JUDGES
    follows = seen * rng.lognormal(sigma=0.3, size=(n, 2))
    metrics = {"harness/follows": follows, "harness/noise": rng.random((n, 2)), "harness/same": np.ones((n, 2))}
    return metrics, share


def test_votes_that_every_distance_contradicts_are_named_and_honest_ones_are_not() -> None:
    for exchanged in (False, True):
        metrics, share = _people(100, 0)
        judged = choices(metrics, 1 - share if exchanged else share)
        result = report(Simulated(distance=judged))
        for name in ("agreement", "ranking"):
            note = table(result, name).note
            assert ("The votes of judged contradict every distance; most of all harness/follows" in note) == exchanged


@pytest.mark.parametrize("n", [20, 100, 400])
def test_honest_votes_are_doubted_in_none_of_300_data_sets(n: int) -> None:
    for seed in range(300):
        metrics, share = _people(n, seed)
        agreements = {
            metric: followed_votes(credit(pairs[:, 0], pairs[:, 1], share), share) for metric, pairs in metrics.items()
        }
        assert not said_of_agreements("The votes", agreements, VOTES)


def test_shares_and_opinions_that_every_distance_contradicts_are_named() -> None:
    rng = np.random.default_rng(0)
    distance = rng.lognormal(size=40)
    for fact, id, sentence in (
        ("same", "jnd", "The shares of judged contradict every distance"),
        ("mos", "opinions", "The opinions of judged contradict every distance"),
    ):
        better = 1 / (1 + distance)
        for turned in (False, True):
            rows = choices({"harness/a": np.stack([distance, distance], axis=1)}, np.full(40, 0.5))
            for row in rows:
                row["group"] = ""
                if row["distance"]:
                    value = better[distance == row["distance"]][0]
                    row[fact] = 1 - value if turned else value
            note = table(report(Simulated(distance=rows)), id).note
            assert (sentence in note) == turned

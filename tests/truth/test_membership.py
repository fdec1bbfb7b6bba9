"""Membership studies with known answers: guesses, a defense that does nothing, a model that reveals all members."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.truth.studies import most

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.contracts.randomness import derive_seed, generator
from imharness.leaderboard import Value
from imharness.membership import (
    Component,
    DefenderOutputs,
    InferMembership,
    Info,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    Progress,
    ReleaseOutputs,
    Scores,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
)
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.blocks import Blocks
from imharness.results.query import ResultQuery
from imharness.results.rows import made_of
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness_membership.tables import report

TRACK, PLAIN = "harness/membership", "harness/plain-training"
CONTROL = {"kind": "defense", "label": PLAIN, "control": "no defense"}
EVALUATORS, SPLITS, ROWS = 14, 3, 120
OPTIONS = {
    "splits": 2, "part": 60, "epochs": 3, "learning_rate": 0.01, "references": 4, "copies": 1, "matched": False,
}  # fmt: skip


class Nothing(MembershipRelease):
    """Releases the outputs unchanged."""

    info = MembershipDefenseInfo(id="acme/nothing", version="1")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            return outputs

        return release


class Register(torch.nn.Module):
    """Classifies its training rows correctly, and returns equal logits for all other rows."""

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.rows, self.labels = data.features.flatten(1), data.labels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(features.flatten(1), self.rows).min(dim=1)
        labels = torch.nn.functional.one_hot(self.labels[nearest.indices], 10).float()
        return 20 * labels * (nearest.values < 1e-3)[:, None]


class Leak(MembershipTraining):
    """Returns a `Register`: a network that knows its members by heart and nothing else."""

    info = MembershipDefenseInfo(id="acme/leak", version="1")

    def build(self, device: torch.device) -> TrainPrivately:
        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            return Register(data).eval()

        return train


class Noise(MembershipEvaluator):
    """Guesses: returns random scores with a seed of the target's outputs."""

    info = Info(id="acme/noise", version="1")
    number: int = 0

    def build(self, device: torch.device) -> InferMembership:
        def infer(query: MembershipQuery) -> Scores:
            rng = generator(derive_seed(self.number, float(query.target_outputs.double().sum())))
            return torch.randn(len(query.target_labels), generator=rng)

        return infer


def study(
    folder: Path,
    defenses: list[str],
    evaluators: list[str],
    further: Sequence[Component] = (),
    options: Mapping[str, Any] | None = None,
) -> ResultQuery:
    """Plan and run the track on digits with a small model; return its results."""
    components = [Registered(c, "test", Provenance("test", "1")) for c in (Nothing(), Leak(), Noise(), *further)]
    registry = installed().joined(components)
    select = {"dataset": ["digits"], "model": ["mlp[hidden=(16,)]"], "defense": defenses, "evaluator": evaluators}
    settings = TrackProfile(select=select, options={**OPTIONS, **(options or {})})
    graph = plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(folder), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    return ResultQuery(cache.store, records, [CONTROL])


def tables(query: Any) -> dict[str, dict[str, Mapping[str, Value]]]:
    return {table.id: {row.label: row.values for row in table.rows} for table in report(query).tables}


def test_a_defense_that_does_nothing_equals_no_defense(tmp_path: Path) -> None:
    tables_by_name = tables(study(tmp_path, ["plain-training", "acme/nothing"], ["confidence"]))
    for table in ("defenses", "rates", "accuracy"):
        actual, plain = (dict(tables_by_name[table][label]) for label in ("acme/nothing", PLAIN))
        if table == "defenses":
            assert (actual.pop("rank").value, plain.pop("rank").value) == (1, None)  # a control has no rank
            assert (actual.pop("gain").value, plain.pop("gain").value) == (0, None)
            for beside in ("behind", "p"):
                assert (actual.pop(beside).value, plain.pop(beside).value) == (None, None)
        assert actual == plain


def test_references_and_gradients_behind_a_defense_that_does_nothing_are_those_of_none(tmp_path: Path) -> None:
    names = ["lira", "rmia", "label-only", "white-box[epochs=2,width=16]"]
    pairs = study(tmp_path, ["plain-training", "acme/nothing"], names)(
        "SELECT a.score AS one, b.score AS other FROM evaluate a JOIN evaluate b USING (evaluator, adaptive, split, "
        f"row) WHERE a.defense = '{PLAIN}' AND b.defense = 'acme/nothing'"
    )
    variants = 4 + 3 + 1 + 1  # of lira, rmia, label-only and white-box
    assert len(pairs["one"]) == variants * 2 * 2 * 120  # attackers (aware or not), splits, rows
    np.testing.assert_allclose(pairs["one"], pairs["other"], rtol=1e-3, atol=1e-4)


def test_a_release_that_keeps_the_label_costs_no_accuracy(tmp_path: Path) -> None:
    names = ["plain-training", "memguard[epochs=2]", "masking[top_k=1]", "masking[temperature=5.0]"]
    rates = tables(study(tmp_path, names, ["correctness"]))["rates"]
    assert len(rates) == 4
    for column in ("test", "train", "accuracy_plain", "accuracy_adaptive"):
        assert len({values[column].value for values in rates.values()}) == 1


def test_a_model_that_knows_its_members_by_heart_is_found_out_completely(tmp_path: Path) -> None:
    tables_by_name = tables(study(tmp_path, ["acme/leak"], ["confidence[per_class=False]", "acme/noise"]))
    row = tables_by_name["rates"]["acme/leak"]
    assert [row[key].value for key in ("accuracy_adaptive", "auc_adaptive", "train")] == [1, 1, 1]
    assert list(tables_by_name["evaluators"]) == ["harness/confidence[per_class=False]", "acme/noise"]
    noise = tables_by_name["accuracy"]["acme/leak"]["e0"]
    assert noise.low is not None
    assert noise.high is not None
    assert noise.low < 0.5 < noise.high


def names_of(entries: int) -> np.ndarray:
    return np.array([PLAIN, *(f"x/{i:02}" for i in range(1, entries))], dtype=object)


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@cache
def places_of(entries: int, evaluators: int, splits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, pa.Table]:
    """Return defense, split and row of each score, each (scores,), and the table `evaluate` without scores."""
    defense, evaluator, split, row = (indices.ravel() for indices in np.indices((entries, evaluators, splits, ROWS)))
    columns = {
        "defense": pa.DictionaryArray.from_arrays(defense, names_of(entries)).dictionary_decode(),
        "evaluator": pa.DictionaryArray.from_arrays(
            evaluator, [f"x/{i:02}" for i in range(evaluators)]
        ).dictionary_decode(),
        "split": split,
        "dataset": pa.repeat("x/rows", len(row)),
        "model": pa.repeat("x/model", len(row)),
        "row": row,
        "adaptive": np.full(len(row), True),
        "member": row < ROWS // 2,
        "label": row % 2,
        "right": np.full(len(row), True),
    }
    return defense, split, row, pa.table(columns)


@cache
def facts_of(entries: int, splits: int) -> dict[str, pa.Table]:
    """Return the tables of a study that no seed changes."""
    defense, split = (indices.ravel() for indices in np.indices((entries, splits)))
    return {
        "components": pa.table({name: [value] for name, value in CONTROL.items()}),
        "evaluate_tasks": pa.table({"defense": [PLAIN]}),
        "train_tasks": pa.table(
            {
                "defense": names_of(entries)[defense],
                "split": split,
                **dict.fromkeys(("role", "dataset", "model"), ["target"] * len(split)),
                "task": split,
                "test_accuracy": np.full(len(split), 0.5),
                "train_accuracy": np.full(len(split), 1.0),
            }
        ),
    }


@cache
def asked(entries: int, splits: int, sql: str) -> dict[str, np.ndarray]:
    """Return what a query finds in the tables of `facts_of`; cached, since all studies have the same."""
    cursor = database().cursor()
    for name, table in facts_of(entries, splits).items():
        cursor.register(name, table)
    return columns_of(cursor.sql(sql).to_arrow_table())


def columns_of(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table[name].to_numpy() for name in table.column_names}


class Simulated:
    """Simulated results of `entries` defenses, the first is none, under `evaluators` that guess.

    In each split the scores of members are raised, and those of non-members lowered, by one normal shift per defense.
    `spread`: its standard deviation over splits. `gap`: twice its mean, by entry: members' mean score less the others'.
    """

    steps = frozenset({"evaluate", "train"})

    def __init__(
        self,
        entries: int,
        seed: int,
        splits: int = SPLITS,
        spread: float = 0.0,
        evaluators: int = EVALUATORS,
        gap: Sequence[float] = (),
    ) -> None:
        defense, split, row, places = places_of(entries, evaluators, splits)
        rng = np.random.default_rng(seed)
        score = rng.normal(size=len(row))
        away = spread * rng.normal(size=(entries, splits)) + np.array(gap or [0.0] * entries)[:, None] / 2
        score += away[defense, split] * np.where(row < ROWS // 2, 1, -1)
        self._shape = entries, splits
        self._db = database().cursor()  # a cursor has its own tables
        self._db.register("evaluate", places.append_column("score", pa.array(score.astype(np.float32))))
        for name, table in facts_of(entries, splits).items():
            self._db.register(name, table)

    def remove(self, where: str) -> None:
        """Remove the rows of `evaluate` that meet an SQL condition."""
        self._db.register("evaluate", self._table(f"SELECT * FROM evaluate WHERE NOT ({where})"))

    def _table(self, sql: str) -> pa.Table:
        relation = self._db.sql(sql)
        return None if relation is None else relation.to_arrow_table()

    def __call__(self, sql: str, /) -> dict[str, np.ndarray]:
        if not re.search(r"\bevaluate\b", sql):
            return dict(asked(*self._shape, sql))
        return columns_of(self._table(sql))

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return made_of(lambda select: self._table(select).to_batches(), sql, **columns)


@pytest.fixture(scope="module")
def noise() -> list[dict[str, dict[str, Mapping[str, Value]]]]:
    """The tables of 200 defenses against which no evaluator knows anything."""
    return [tables(Simulated(10, seed)) for seed in range(20)]


def test_intervals_of_noise_cover_one_half_in_95_percent(noise) -> None:
    values = [
        value
        for tables_by_name in noise
        for row in tables_by_name["accuracy"].values()
        for k, value in row.items()
        if k[0] == "e"
    ]
    assert len(values) == 200 * EVALUATORS
    bounded = [value for value in values if value.low is not None]
    assert len(bounded) > 0.98 * len(values)
    covered = np.mean([value.low <= 0.5 <= value.high for value in bounded])
    assert covered == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("key", ["accuracy_adaptive", "auc_adaptive"])
def test_the_strongest_of_evaluators_that_guess_stays_at_one_half(key: str, noise) -> None:
    values = [row[key] for tables_by_name in noise for row in tables_by_name["rates"].values()]
    numbers = np.array([value.value for value in values])
    assert len(numbers) == 200
    assert abs(numbers.mean() - 0.5) < 3 * numbers.std() / np.sqrt(200)
    bounded = [value for value in values if value.low is not None]
    assert len(bounded) > 0.98 * len(values)
    assert np.mean([value.low <= 0.5 <= value.high for value in bounded]) == pytest.approx(0.95, abs=0.05)


def test_equal_defenses_whose_splits_differ_are_told_apart_in_at_most_5_percent_of_studies() -> None:
    """Rows of a split share a model, so that a test which takes rows for units finds false differences.

    It would find them in more than half of the studies, and 30 studies show that with a power above 0.999.
    `test_membership_contest` does the same with a hundred studies.
    """
    studies = 30
    separated = tested = 0
    for seed in range(studies):
        comparisons = {
            candidate.column: candidate
            for candidate in report(Simulated(4, seed, splits=8, spread=0.3, evaluators=4)).comparisons
        }
        comparison = comparisons["accuracy_adaptive"]
        separated += bool(comparison.differences.better.any())
        tested += bool(np.nanmax(comparison.rates.rate, initial=0) > 0)
    assert max(separated, tested) <= most(studies)

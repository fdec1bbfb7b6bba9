"""The calibrated rate of the leaderboard, in studies where each record's false positives are known."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy
import torch
from tests.truth.test_membership import PLAIN, Simulated, columns_of, study, tables

from imharness.components.registry import installed
from imharness.leaderboard import Value
from imharness.membership import References
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.tracks import Output, TrackReport
from imharness_membership.audit_references import KnownReferences
from imharness_membership.calibrated import calibrated, enough
from imharness_membership.evaluators.lira import Lira
from imharness_membership.likelihood import log_odds
from imharness_membership.per_record import FPR, per_record
from imharness_membership.tables import report
from imharness_membership.tables.calibrated import LABEL

SPLITS, ROWS, COUNT = 6, 6000, 16
SPREADS = np.repeat([0.25, 1.0, 4.0], ROWS // 3)
LEAKS = {PLAIN: 2.0, "x/nothing-leaks": 0.0}
MODELS = COUNT // 2
"""The reference models without a record: half of `COUNT`, for each record."""
SHIFTS = 2.0 / np.unique(SPREADS) / np.sqrt(1 + 1 / MODELS)
"""The noncentrality of Student's t for a leak of 2, for records of each spread."""
POWER = scipy.stats.nct.sf(scipy.stats.t.isf(FPR, MODELS - 1), MODELS - 1, SHIFTS).mean()
"""The share of members that Student's test finds with a leak of 2, the mean over records."""


@dataclass(frozen=True)
class Split:
    """Members ``(n,)``, LiRA's scores ``(n,)``, and the p-values of the step `calibrated` ``(n,)``."""

    member: np.ndarray
    score: np.ndarray
    p: np.ndarray


def split_of(leak: float, seed: int) -> Split:
    """Return a split whose records leak equally, and differ in the spread of models' answers (`SPREADS`)."""
    rng = np.random.default_rng(seed)
    inside = np.concatenate([rng.random((1, ROWS)) < 0.5, rng.random((COUNT, ROWS)).argsort(axis=0) < COUNT // 2])
    odds = rng.normal(0, 1, ROWS) + leak * inside + SPREADS * rng.normal(size=inside.shape)
    true = torch.from_numpy(odds[0]).sigmoid()
    target = {"outputs": torch.stack([true, 1 - true], dim=1).numpy(), "population": odds[0, :2]}
    rows = {"row": np.arange(ROWS), "label": np.zeros(ROWS, np.int64), "member": inside[0]}
    references = {"log_odds": odds[1:], "member": inside[1:], "population": odds[1:, :2]}
    needs = {"target": Output(rows, target), "shadow": Output({}, {}), "references": Output({}, references)}
    result = calibrated.run(SimpleNamespace(need=needs.__getitem__, device=torch.device("cpu")))
    assert result.facts["references"] == MODELS
    models = References(
        log_odds=torch.from_numpy(odds[1:]),
        member=torch.from_numpy(inside[1:]),
        population_log_odds=torch.from_numpy(odds[1:, :2]),
        target_population_log_odds=torch.from_numpy(odds[0, :2]),
    )
    score = Lira().statistic(torch.from_numpy(odds[0]), models.target_population_log_odds, models, COUNT).numpy()
    return Split(inside[0], score, np.asarray(result.rows["p"]))


@cache
def world() -> dict[tuple[str, int], Split]:
    """Return the splits of both defenses, by label and number."""
    seeds = itertools.count()
    return {(name, split): split_of(leak, next(seeds)) for name, leak in LEAKS.items() for split in range(SPLITS)}


class Study(Simulated):
    """The results of `world` as those of a run with `models` reference models; records are tested if it has `COUNT`."""

    def __init__(self, models: int = COUNT) -> None:
        super().__init__(len(LEAKS), 0, SPLITS, evaluators=1)
        tested = ["calibrated"] if models == COUNT else []
        self.steps = frozenset(["evaluate", "train", "references", *tested])
        names = ["defense", "split", "row", "member", "score", "p"]
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for (defense, split), one in world().items():
            score = one.score.astype(np.float32)
            of_split = ([defense] * ROWS, [split] * ROWS, range(ROWS), one.member, score, one.p)
            for name, values in zip(names, of_split, strict=True):
                columns[name].extend(values)
        every = pa.table({name: pa.array(values) for name, values in columns.items()})
        self._db.register("every", every)
        rows = "'x/rows' AS dataset, 'x/model' AS model, defense, split, row, member"
        evaluate = (
            f"SELECT {rows}, 'x/lira' AS evaluator, true AS adaptive, 0 AS label, true AS right, score FROM every"
        )
        self._db.register("evaluate", self._db.sql(evaluate).to_arrow_table())
        tested_rows = f'SELECT {rows}, p, {MODELS}.0 AS "references" FROM every'
        self._db.register("calibrated", self._db.sql(tested_rows).to_arrow_table())
        self._db.register("references_tasks", pa.table({"models": [models]}))
        self._db.register("calibrated_tasks", pa.table({"defense": [PLAIN]}))
        train = self._db.sql(
            "SELECT DISTINCT defense, split, 'target' AS role, 'x/rows' AS dataset, 'x/model' AS model, split AS task, "
            "0.5::DOUBLE AS test_accuracy, 1::DOUBLE AS train_accuracy FROM every"
        )
        self._db.register("train_tasks", train.to_arrow_table())

    def __call__(self, sql: str, /) -> dict[str, np.ndarray]:
        return columns_of(self._table(sql))

    def untested(self, where: str) -> None:
        """Remove the tests of records that meet an SQL condition."""
        self._db.register("calibrated", self._table(f"SELECT * FROM calibrated WHERE NOT ({where})"))


@cache
def report_of(models: int) -> TrackReport:
    return report(Study(models))


def of_tables(models: int) -> dict[str, dict[str, Mapping[str, Value]]]:
    return {table.id: {row.label: row.values for row in table.rows} for table in report_of(models).tables}


def accused(name: str, caught_in: Callable[[Split], np.ndarray]) -> list[float]:
    """Return the share of non-members that `caught_in` accuses, for records of each spread, over all splits."""
    shares = []
    for spread in np.unique(SPREADS):
        here = [(one, ~one.member & (spread == SPREADS)) for (n, _), one in world().items() if n == name]
        shares.append(float(np.mean(np.concatenate([caught_in(one)[mask] for one, mask in here]))))
    return shares


def over_threshold(one: Split) -> np.ndarray:
    """Return the records above the threshold of LiRA's scores that accuses 1 % of all non-members."""
    return one.score >= np.quantile(one.score[~one.member], 1 - FPR)


def test_each_record_keeps_its_level_and_one_threshold_does_not() -> None:
    pooled = accused(PLAIN, over_threshold)
    assert pooled[0] < FPR / 4
    assert pooled[2] > 2 * FPR
    # four standard errors; a split has about ROWS / 6 non-members of each spread
    near = 4 * np.sqrt(FPR * (1 - FPR) / (SPLITS * ROWS / 6))
    assert accused(PLAIN, lambda one: one.p <= FPR) == pytest.approx([FPR] * 3, abs=near)


def test_the_tables_have_the_power_of_the_test_beside_a_pooled_rate_that_is_off() -> None:
    result = of_tables(COUNT)
    for name in ("defenses", "rates"):
        leaky, tight = (result[name][label]["calibrated"] for label in LEAKS)
        assert leaky.value == pytest.approx(POWER, abs=0.01)
        assert leaky.n == tight.n == SPLITS
        assert tight.value == pytest.approx(FPR, abs=0.003)
        assert tight.low is not None
        assert tight.high is not None
        assert tight.low < FPR < tight.high
    assert abs(result["rates"][PLAIN]["tpr1_adaptive"].number_or(0) - POWER) > 0.05
    for label in LEAKS:
        assert result["rates"][label]["calibrated_fpr"].value == pytest.approx(FPR, abs=0.003)


def test_it_ranks_nobody_and_says_what_it_is() -> None:
    with_it, without = (report_of(models) for models in (COUNT, 4))
    assert LABEL in [column.label for column in with_it.tables[0].columns]
    assert LABEL not in [column.label for column in without.tables[0].columns]
    assert "accuses each non-member with a chance of 1%" in with_it.tables[0].caption
    assert "for half of the records at least 8 without it" in with_it.tables[0].caption
    for one, other in zip(with_it.rankings, without.rankings, strict=True):
        assert one.model_copy(update={"table": other.table}) == other
    for row in without.tables[0].rows:
        same = next(r for r in with_it.tables[0].rows if r.label == row.label)
        assert {key: same.values[key] for key in row.values} == row.values


def test_splits_without_a_test_are_counted_and_a_defense_without_any_says_so() -> None:
    some, none = Study(), Study()
    some.untested(f"defense = '{PLAIN}' AND split IN (1, 4)")
    none.untested(f"defense = '{PLAIN}'")
    results = tables(some), tables(none)
    for name in ("defenses", "rates"):
        fewer, missing = (result[name][PLAIN]["calibrated"] for result in results)
        assert (fewer.n, missing.value, missing.missing) == (SPLITS - 2, None, "no task")
        assert fewer.value == pytest.approx(POWER, abs=0.01)
        assert results[1][name]["x/nothing-leaks"]["calibrated"].n == SPLITS


def test_where_the_test_accuses_too_many_non_members_there_is_no_rate() -> None:
    study = Study()
    study.untested(f"defense = '{PLAIN}' AND NOT member AND p > 0.2")
    value = tables(study)["defenses"][PLAIN]["calibrated"]
    assert value.value is None
    assert value.missing == "the test accuses 4.7% of the non-members: it does not hold here"


def test_too_few_reference_models_give_no_rate_and_the_reason() -> None:
    value = of_tables(4)["rates"][PLAIN]["calibrated"]
    assert value.value is None
    assert value.missing == "it takes 8 reference models without each record, and about 2 of 4 are"


@pytest.mark.parametrize(
    ("models", "subset_size", "further", "expected"),
    [(4, 160, 340, False), (16, 0, 0, True), (12, 0, 400, False), (12, 100, 400, True)],
)
def test_records_are_tested_where_eight_models_lack_them(
    models: int, subset_size: int, further: int, expected: bool
) -> None:
    assert enough(models, subset_size, further) is expected
    options = {"splits": 2, "part": subset_size, "further": further, "references": models}
    select = {"dataset": ["digits"], "model": ["mlp"], "defense": ["plain-training"]}
    for evaluators, planned in ((["rmia"], 2 if expected else 0), (["confidence"], 0)):
        profile = TrackProfile(select={**select, "evaluator": evaluators}, options=options)
        graph = plan_track(
            "harness/membership",
            Profile(name="truth", description="", tracks={"harness/membership": profile}),
            installed(),
        )
        assert graph.by_step().get("calibrated", 0) == planned


def test_a_run_tests_its_records_as_an_audit_of_the_same_models_does(tmp_path: Path) -> None:
    query = study(tmp_path, ["plain-training", "acme/nothing"], ["rmia"], options={"references": 16})
    rates = tables(query)["rates"]
    assert rates["acme/nothing"]["calibrated"] == rates[PLAIN]["calibrated"]
    assert rates[PLAIN]["calibrated"].n == 2
    store, records = query._store, query._records
    mine = [r for r in records if r.spec.components["defense"].label == PLAIN and r.spec.options.get("split") == 0]
    by_step = {record.spec.step: record for record in mine if record.spec.options.get("role") != "shadow"}
    references, target = store.arrays(by_step["references"]), by_step["train"]
    rows = store.rows(target)
    outputs, labels = torch.from_numpy(store.arrays(target)["outputs"]), torch.tensor(np.array(rows["label"]))
    audit = per_record(
        log_odds(outputs, labels).numpy(),
        KnownReferences(references["log_odds"], references["member"]),
        np.array(rows["member"]),
    )
    tested = store.rows(by_step["calibrated"])
    member, caught = np.array(tested["member"]), np.array(tested["p"]) <= FPR
    assert (caught[member].mean(), caught[~member].mean()) == (audit.tpr.value, audit.fpr.value)
    assert by_step["calibrated"].facts["references"] == audit.references

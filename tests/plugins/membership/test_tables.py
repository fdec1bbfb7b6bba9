"""Tables of the membership track from small stores written by hand, against numbers worked out by hand."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, pearsonr, spearmanr, t, ttest_rel

from imharness.errors import UsageError
from imharness.leaderboard import auc, balanced_accuracy, chosen_half, tpr_at_fpr
from imharness.results.identity import ComponentRef
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.tracks import TrackReport
from imharness_membership.roc import roc
from imharness_membership.tables import report
from imharness_membership.tables.figures import figures
from imharness_membership.tables.rates import figures_at

PLAIN, GUARD, LATE = "harness/plain-training", "x/guard", "x/late"
CONTROL = {"kind": "defense", "label": PLAIN, "control": "no defense"}
STOPPED = f"harness/early-stopping, stopped nearest to the accuracy of {GUARD}"
TIMES = 10
"""How often the four rows of `RIGHT`, `HALF` and `WRONG` are repeated in the data set."""
MEMBER = np.array([True, True, False, False] * TIMES)
LABEL = np.array([0, 1, 0, 1] * TIMES)
ROW = np.arange(4 * TIMES) + 8  # numbers of rows need not begin at 0
NAMES = np.array([f"x/rows {row}" for row in ROW])
REPORTED = ~chosen_half(NAMES)
RIGHT, HALF, WRONG = [0.4, 0.2, -0.1, -0.3], [0.4, -0.2, 0.1, -0.3], [-0.4, -0.2, 0.1, 0.3]
"""Scores of four rows, of which all, two and none have the sign that fits `MEMBER`."""


class World:
    """A store into which a test puts tasks one by one, and the report of it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.records = Store(folder), list[TaskRecord]()

    def put(self, step: str, roles: dict[str, str], options: dict, rows: dict, facts: dict | None = None) -> None:
        refs = {
            role: ComponentRef(kind=role, id=label.partition("[")[0], version="1", label=label, parameters={})
            for role, label in {"dataset": "x/rows", "model": "x/model", **roles}.items()
        }
        spec = TaskSpec(
            track="harness/membership",
            step=step,
            version="1",
            components=refs,
            options=options,
            limit=None,
            seed=0,
            needs={},
        )
        key = hashlib.sha256(f"{step}{roles}{options}".encode()).hexdigest()
        bare = TaskRecord(
            key=key, spec=spec, status="done", started="", seconds=0.0, device="", versions={}, facts=facts or {}
        )
        self.records.append(self.store.commit(bare, rows, {}))

    def guess(
        self,
        defense: str,
        evaluator: str,
        score: Sequence[float],
        *,
        adaptive: bool = True,
        split: int = 0,
        matched: str = "",
        right: Sequence[bool] = (True, True, True, True),
    ) -> None:
        self.guess_rows(
            defense, evaluator, np.tile(score, TIMES), adaptive=adaptive, split=split, matched=matched, right=right
        )

    def guess_rows(
        self,
        defense: str,
        evaluator: str,
        scores: np.ndarray,
        *,
        adaptive: bool = True,
        split: int = 0,
        matched: str = "",
        right: Sequence[bool] = (True, True, True, True),
    ) -> None:
        roles = {"defense": defense, **({"matched": matched} if matched else {}), "evaluator": evaluator}
        rows = {"row": ROW, "member": MEMBER, "label": LABEL, "right": np.tile(right, TIMES)}
        self.put("evaluate", roles, {"adaptive": adaptive, "split": split}, {**rows, "score": scores})

    def trained(
        self, defense: str, test: float, matched: str = "", step: str = "train", split: int = 0, **facts: float
    ) -> None:
        roles = {"defense": defense, **({"matched": matched} if matched else {})}
        facts |= {"test_accuracy": test, "train_accuracy": 1.0}
        self.put(step, roles, {"role": "target", "split": split}, {"row": np.arange(4)}, facts)

    def report(self) -> TrackReport:
        return report(ResultQuery(self.store, self.records, [CONTROL]))

    def table(self, id: str) -> dict[str, dict[str, float | None]]:
        """Return label -> column -> number, in the order of the rows."""
        table = next(table for table in self.report().tables if table.id == id)
        return {row.label: {key: value.value for key, value in row.values.items()} for row in table.rows}


def shown(score: Sequence[float]) -> float:
    """Return the balanced accuracy on `REPORTED`, the rows on which an evaluator is not chosen.

    With one or two splits, the strongest evaluator is chosen on one half of the rows and reported on the other.
    """
    return balanced_accuracy(np.tile(score, TIMES)[REPORTED], MEMBER[REPORTED])


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def test_figures_of_many_rows_are_those_of_each_one() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(301) < 0.4
    score = np.round(rng.normal(size=(5, 301)) + 0.5 * member, 1)
    score[3] = np.nan
    measures = figures(score, member, figures_at())
    for row in (0, 1, 2, 4):
        assert measures["accuracy"][row] == pytest.approx(balanced_accuracy(score[row], member), abs=1e-12)
        assert measures["auc"][row] == pytest.approx(auc(score[row], member), abs=1e-12)
        assert measures["tpr1"][row] == pytest.approx(tpr_at_fpr(score[row], member, 0.01), abs=1e-12)
        assert np.isnan(measures["tpr01"][row])
    assert all(np.isnan(numbers[3]) for numbers in measures.values())
    many = np.arange(1500) < 300
    score = rng.normal(size=(1, 1500))
    assert figures(score, many, figures_at(0.001))["tpr01"][0] == tpr_at_fpr(score[0], many, 0.001)
    with pytest.raises(UsageError, match="need members and non-members, got 0 and 301"):
        figures(score, np.zeros(301, dtype=bool), figures_at())


def test_a_defense_that_no_adaptive_adversary_met_stands_last(world: World) -> None:
    for defense, score in ((PLAIN, RIGHT), (GUARD, HALF)):
        for adaptive in (False, True):
            world.guess(defense, "x/one", score, adaptive=adaptive)
    world.guess(LATE, "x/one", WRONG, adaptive=False)
    for defense in (PLAIN, GUARD, LATE):
        world.trained(defense, 0.5)
    rows = world.table("defenses")
    assert list(rows) == [GUARD, LATE, PLAIN], "the control comes after all entries"
    half = shown(HALF)
    assert [row["aware"] for row in rows.values()] == pytest.approx([half, None, 1.0])
    assert [row["unaware"] for row in rows.values()] == pytest.approx([half, None, 1.0])
    assert [row["rank"] for row in rows.values()] == [1, None, None]
    assert [row["coverage"] for row in rows.values()] == [100, 50, 100]
    rows = world.table("rates")
    assert [row["accuracy_adaptive"] for row in rows.values()] == [half, 1.0, None]
    assert [row["accuracy_plain"] for row in rows.values()] == [half, 1.0, 0.0]


def test_the_strongest_evaluator_counts_and_splits_are_averaged(world: World) -> None:
    world.trained(PLAIN, 0.75)
    for split, score in enumerate((RIGHT, HALF)):
        world.guess(PLAIN, "x/one", score, split=split)
        world.guess(PLAIN, "x/two", HALF, split=split)
    both = (1 + shown(HALF)) / 2
    assert world.table("defenses")[PLAIN]["worst"] == pytest.approx(both)
    rates = world.table("rates")[PLAIN]
    assert (rates["accuracy_adaptive"], rates["accuracy_plain"]) == (pytest.approx(both), None)
    assert rates["tpr1_adaptive"] is None
    assert (rates["test"], rates["train"]) == (0.75, 1.0)
    assert world.table("accuracy")[PLAIN] == {"e0": 0.75, "e1": 0.5, "test": 0.75, "train": 1.0}
    assert {name: row["accuracy"] for name, row in world.table("evaluators").items()} == {"x/one": 0.75, "x/two": 0.5}
    assert list(world.table("evaluators")) == ["x/one", "x/two"]


def test_an_evaluator_is_chosen_and_reported_on_different_rows(world: World) -> None:
    """x/one is right on the reported rows alone, x/two on the others alone: x/two is chosen and reported with 0."""
    score = np.tile(RIGHT, TIMES)
    world.guess_rows(PLAIN, "x/one", np.where(REPORTED, score, -score))
    world.guess_rows(PLAIN, "x/two", np.where(REPORTED, -score, score))
    world.trained(PLAIN, 0.75)
    assert world.table("defenses")[PLAIN]["worst"] == 0
    assert world.report().rankings[0].places[PLAIN].broken_by == {"x/two": 1.0}


def test_the_evaluator_of_a_split_is_chosen_on_those_that_follow_it(world: World) -> None:
    """Of five splits x/one is right on 0 and 1, and x/two on the others.

    The evaluator of split 0 is chosen on splits 1 and 2, that of split 4 on 0 and 1.
    """
    for split in range(5):
        for name, right in (("x/one", split < 2), ("x/two", split >= 2)):
            world.guess(PLAIN, name, RIGHT if right else HALF, split=split)
        world.guess(PLAIN, "x/three", WRONG, split=split)
        world.trained(PLAIN, 0.75, split=split)
    result = world.report()
    _, reported = result.comparisons[0].stored()
    assert reported[0].tolist() == [1, 0.5, 1, 0.5, 0.5], "0 and 3 are ties, where the first evaluator is taken"
    assert result.rankings[0].places[PLAIN].broken_by == {"x/one": 0.6, "x/two": 0.4}


@pytest.mark.parametrize(
    ("fpr", "columns", "note"),
    [(0.75, ["tpr75", "accuracy"], ""), (0.4, ["accuracy", "tpr40"], "with 25 non-members in each split")],
)
def test_the_rate_at_few_false_positives_ranks_where_splits_have_enough_non_members(
    world: World, fpr: float, columns: list[str], note: str
) -> None:
    """A rate ranks where rate * (non-members + 1) is at least ten: with 20 it is 15.75 at 75 %, and 8.4 at 40 %."""
    assert np.sum(~MEMBER) == 20
    for split in range(3):
        world.guess(PLAIN, "x/one", HALF, split=split)
        world.trained(PLAIN, 0.5, split=split)
    result = report(ResultQuery(world.store, world.records, [CONTROL]), fpr=fpr)
    compared = [comparison.id.removeprefix("defense-wins-") for comparison in result.comparisons]
    assert compared[:2] == columns
    assert result.rankings[0].secondary_measures == (f"defense-wins-{columns[0]}",), "three splits tell nothing"
    label = {"tpr75": "TPR at 75% FPR", "tpr40": "TPR at 40% FPR", "accuracy": "balanced accuracy"}
    column_labels = {column.key: column.label for column in result.tables[0].columns}
    assert column_labels["worst"] == f"{label[columns[0]]}, worst attack"
    assert column_labels[columns[1]] == label[columns[1]]
    assert note in result.tables[0].note


def test_early_stopping_is_named_after_what_it_matches(world: World) -> None:
    for defense, matched, score in ((GUARD, "", RIGHT), ("harness/early-stopping", GUARD, HALF)):
        world.guess(defense, "x/one", score, matched=matched)
    world.guess("harness/early-stopping", "x/one", WRONG)
    world.trained(GUARD, 0.75)
    world.trained("harness/early-stopping", 0.25)
    world.trained("harness/early-stopping", 0.5, GUARD, "stop")
    rows = world.table("defenses")
    assert list(rows) == ["harness/early-stopping", GUARD, STOPPED]
    assert [row["utility"] for row in rows.values()] == [0.25, 0.75, 0.5]
    controls = {label: standing.control for label, standing in world.report().rankings[0].places.items()}
    assert controls == {"harness/early-stopping": "", STOPPED: "early stopping at equal accuracy", GUARD: ""}


def test_one_threshold_is_set_against_one_for_each_class(world: World) -> None:
    world.trained(PLAIN, 0.5)
    world.trained(GUARD, 0.5)
    world.guess(PLAIN, "x/one", RIGHT)
    world.guess(PLAIN, "x/one[per_class=False]", HALF)
    world.guess(GUARD, "x/one", RIGHT)
    world.guess(PLAIN, "x/two[per_class=False]", HALF)
    rows = world.table("thresholds")
    assert list(rows) == ["x/one"]
    assert (rows["x/one"]["one"], rows["x/one"]["each"], rows["x/one"]["gain"]) == (0.5, 1.0, 0.5)


def test_risk_scores_by_threshold_and_by_class(world: World) -> None:
    world.trained(PLAIN, 0.5)
    world.guess(PLAIN, "harness/privacy-risk", RIGHT, right=(True, True, True, False))
    world.guess(PLAIN, "harness/privacy-risk", WRONG, adaptive=False)
    row = world.table("risk")[PLAIN]
    promised = np.tile(RIGHT, TIMES) + 0.5
    assert (row["p0"], row["r0"]) == (None, 0.0)
    assert (row["p1"], row["r1"]) == (1.0, 0.5)
    assert (row["p5"], row["r5"]) == (1.0, 1.0)
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean((promised - MEMBER) ** 2)))
    classes = world.table("classes")[PLAIN]
    assert classes["low"] == pytest.approx(0.7)
    assert classes["high"] == pytest.approx(0.9)
    assert classes["correlation"] is None


def test_risk_follows_the_generalisation_error_of_classes(world: World) -> None:
    rows = {
        "row": np.arange(6),
        "member": np.repeat([True, False], 3),
        "label": np.array([0, 1, 2] * 2),
        "right": np.array([True, True, True, False, True, True]),
        "score": np.array([0.4, 0.1, 0.2, 0, 0, 0]),
    }
    roles = {"defense": PLAIN, "evaluator": "harness/privacy-risk"}
    world.put("evaluate", roles, {"adaptive": True, "split": 0}, rows)
    world.trained(PLAIN, 0.5)
    assert world.table("classes")[PLAIN]["correlation"] == pytest.approx(pearsonr([0.9, 0.6, 0.7], [1, 0, 0])[0])


def test_no_class_with_both_kinds_of_row_is_said(world: World) -> None:
    rows = {
        "row": np.arange(4),
        "member": np.repeat([True, False], 2),
        "label": np.arange(4),
        "right": np.ones(4, bool),
        "score": np.array([0.4, 0.1, -0.2, 0]),
    }
    roles = {"defense": PLAIN, "evaluator": "harness/privacy-risk"}
    world.put("evaluate", roles, {"adaptive": True, "split": 0}, rows)
    world.trained(PLAIN, 0.5)
    table = next(table for table in world.report().tables if table.id == "classes")
    (row,) = table.rows
    for value in row.values.values():
        assert (value.value, value.missing) == (None, "no class has members and non-members")


def test_splits_that_all_give_one_number_have_no_interval(world: World) -> None:
    for split in range(3):
        world.guess(PLAIN, "x/one", HALF, split=split)
        world.guess(PLAIN, "x/one[per_class=False]", HALF, split=split)
        world.trained(PLAIN, 0.1, split=split)
    tables = {table.id: {row.label: row.values for row in table.rows} for table in world.report().tables}
    for value, mean in (
        (tables["defenses"][PLAIN]["utility"], 0.1),
        (tables["evaluators"]["x/one"]["accuracy"], 0.5),
        (tables["thresholds"]["x/one"]["gain"], 0),
    ):
        assert (value.value, value.n, value.low, value.high) == (pytest.approx(mean), 3, None, None)


def test_risk_is_set_against_what_removal_does(world: World) -> None:
    world.trained(PLAIN, 0.5)
    scores = [0.4, 0.2, -0.1, -0.3]
    world.guess(PLAIN, "harness/lira", scores)
    world.guess(PLAIN, "harness/lira", WRONG, split=1)
    world.guess(GUARD, "harness/lira", WRONG)
    moved = {"row": np.array([8, 9, 12]), "sensitivity": np.array([0.3, 0.7, 0.1])}
    world.put("sensitivity", {"defense": PLAIN}, {"rows": 3, "split": 0}, moved)
    world.trained(GUARD, 0.5)
    expected = spearmanr([0.4, 0.2, 0.4], moved["sensitivity"])[0]
    (row,) = world.table("sensitivity").values()
    assert row["correlation"] == pytest.approx(expected)


def test_members_that_three_evaluators_see_alike_are_those_whose_removal_matters(world: World) -> None:
    """Each score is the members' exposure plus noise of its own; any two correlate by 0.8 ** 2 = 0.64.

    Spearman's correlation of Gaussians that correlate by 0.64 is 6 / pi * arcsin(0.64 / 2).
    """
    generator, n = np.random.default_rng(0), 2000
    exposure = generator.normal(size=n)
    names = ("harness/lira", "harness/rmia", "harness/privacy-risk")
    scores = {name: 0.8 * exposure + 0.6 * generator.normal(size=n) for name in names}
    for name, member_scores in scores.items():
        rows = {
            "row": np.arange(2 * n),
            "member": np.arange(2 * n) < n,
            "label": np.zeros(2 * n, int),
            "right": np.ones(2 * n, bool),
            "score": norm.cdf(np.r_[member_scores, generator.normal(size=n)]) - 0.5,
        }
        world.put("evaluate", {"defense": PLAIN, "evaluator": name}, {"adaptive": True, "split": 0}, rows)
    world.trained(PLAIN, 0.5)
    moved = exposure[:500] + generator.normal(size=500)
    world.put(
        "sensitivity", {"defense": PLAIN}, {"rows": 500, "split": 0}, {"row": np.arange(500), "sensitivity": moved}
    )
    table_rows = world.table("vulnerable")
    for label in (f"{names[0]} and {names[1]}", "all three"):
        assert table_rows[label]["correlation"] == pytest.approx(6 / np.pi * np.arcsin(0.64 / 2), abs=0.04)
    top = np.all([values >= np.sort(values)[-n // 10] for values in scores.values()], axis=0)
    assert table_rows["all three"]["both"] == pytest.approx(top.mean())
    assert table_rows["all three"]["chance"] == pytest.approx(0.001)
    removed = world.table("sensitivity")
    assert removed["all three"]["correlation"] > max(removed[name]["correlation"] for name in names)
    high = np.all([values >= np.quantile(values, 0.75) for values in scores.values()], axis=0)[:500]
    assert removed["all three"]["high"] == pytest.approx(moved[high].mean())
    assert removed["all three"]["rest"] == pytest.approx(moved[~high].mean())


def test_defenses_are_compared_by_the_figures_that_stand_in_the_table(world: World) -> None:
    for split, score in enumerate((RIGHT, HALF)):
        world.guess(PLAIN, "x/one", score, split=split)
        world.guess(GUARD, "x/one", HALF, split=split, adaptive=False)
    for defense in (PLAIN, GUARD):
        world.trained(defense, 0.5)
    _, fixed, adaptive = world.report().comparisons
    assert [[facets["attacker"] for facets in comparison.conditions] for comparison in (fixed, adaptive)] == [
        ["fixed"],
        ["adaptive"],
    ]
    assert (fixed.column, adaptive.column) == ("accuracy_plain", "accuracy_adaptive")
    assert adaptive.units[0] == ("x/rows, split 0", "x/rows, split 1")
    assert adaptive.entries == (PLAIN, GUARD)
    half = shown(HALF)
    np.testing.assert_allclose(adaptive.values[0], [[1, half], [np.nan, np.nan]])
    np.testing.assert_allclose(fixed.values[0], [[np.nan, np.nan], [half, half]])
    table = world.table("rates")
    assert table[PLAIN]["accuracy_adaptive"] == pytest.approx((1 + half) / 2)
    assert table[GUARD]["accuracy_plain"] == pytest.approx(half)


def test_the_curve_of_the_undefended_model_turns_at_every_score(world: World) -> None:
    world.guess(PLAIN, "x/one", HALF, adaptive=False)
    world.guess(PLAIN, "x/one", WRONG, adaptive=False, split=1)
    world.guess(GUARD, "x/one", WRONG, adaptive=False)
    for defense in (PLAIN, GUARD):
        world.trained(defense, 0.5)
    roc, cost = world.report().charts
    (curve,) = roc.series
    assert (curve.label, curve.x, curve.y) == ("x/one", (0, 0, 0.5, 0.5, 1), (0, 0.5, 0.5, 1, 1))
    assert (cost.x, cost.y) == ("utility", "worst")


def test_intervals_are_students_over_splits_whatever_the_number_of_defenses(world: World) -> None:
    accuracy = [0.5, 0.6, 0.9]
    for split, (score, test) in enumerate(zip((RIGHT, HALF, WRONG), accuracy, strict=True)):
        for defense in (PLAIN, GUARD):
            world.guess(defense, "x/one", score, split=split)
            world.guess(defense, "x/one[per_class=False]", HALF, split=split)
            world.trained(defense, test, split=split)
    tables = {table.id: {row.label: row.values for row in table.rows} for table in world.report().tables}

    def expected(numbers: Sequence[float]) -> tuple[int, float, float]:
        reach = t.ppf(0.975, len(numbers) - 1) * np.std(numbers, ddof=1) / len(numbers) ** 0.5
        return len(numbers), max(0, np.mean(numbers) - reach), min(1, np.mean(numbers) + reach)

    for value, numbers in (
        (tables["defenses"][PLAIN]["utility"], accuracy),
        (tables["accuracy"][PLAIN]["e0"], [1, 0.5, 0]),
        (tables["evaluators"]["x/one"]["accuracy"], [1, 0.5, 0]),
    ):
        assert (value.n, value.low, value.high) == pytest.approx(expected(numbers))
    p = ttest_rel([1, 0.5, 0], [0.5] * 3, alternative="greater").pvalue
    assert (tables["thresholds"]["x/one"]["p"].value, tables["thresholds"]["x/one"]["p"].n) == (pytest.approx(p), 3)


def test_a_rate_is_not_defined_with_too_few_non_members(world: World) -> None:
    world.guess(PLAIN, "x/one", RIGHT)
    world.trained(PLAIN, 0.5)
    tables = {table.id: {row.label: row.values for row in table.rows} for table in world.report().tables}
    for value, had in ((tables["rates"][PLAIN]["tpr01_adaptive"], 9), (tables["evaluators"]["x/one"]["tpr01"], 20)):
        assert value.value is None
        assert value.missing == f"not defined: a split has {had} non-members, and it takes 999"


def test_further_non_members_leave_the_risk_scores_alone_and_the_tables_say_so(world: World) -> None:
    world.trained(PLAIN, 0.5)
    roles = {"defense": PLAIN, "evaluator": "harness/privacy-risk"}
    rows = {"row": ROW, "member": MEMBER, "label": LABEL, "right": np.ones(len(ROW), dtype=bool)}
    rows |= {"score": np.tile(RIGHT, TIMES), "further": np.zeros(len(ROW), dtype=bool)}
    accused = {"row": ROW + 10**6, "member": MEMBER & False, "score": np.full(len(ROW), 0.5), "further": MEMBER | True}
    both = {name: np.concatenate([numbers, accused.get(name, numbers)]) for name, numbers in rows.items()}
    world.put("evaluate", roles, {"adaptive": True, "split": 0}, both)
    world.guess(PLAIN, "harness/neural[width=64]", RIGHT)
    assert world.table("risk")[PLAIN]["p5"] == 1.0
    captions = {table.id: table.caption for table in world.report().tables}
    assert all("Further non-members are left out" in captions[id] for id in ("risk", "estimates"))


def test_priors_of_the_risk_score_stand_apart(world: World) -> None:
    world.trained(PLAIN, 0.5)
    world.guess(PLAIN, "harness/privacy-risk", RIGHT)
    world.guess(PLAIN, "harness/privacy-risk[prior=0.1]", WRONG)
    rows = world.table("risk")
    assert list(rows) == [f"{PLAIN}, harness/privacy-risk", f"{PLAIN}, harness/privacy-risk[prior=0.1]"]
    assert [row["r5"] for row in rows.values()] == [1.0, 0.0]


def test_the_privacy_that_a_training_promises_stands_beside_it(world: World) -> None:
    for defense in (PLAIN, GUARD):
        world.guess(defense, "x/one", RIGHT)
    world.trained(PLAIN, 0.5)
    world.trained(GUARD, 0.5, epsilon=2.5, delta=1e-5)
    rows = world.table("rates")
    assert [(row["epsilon"], row["delta"]) for row in (rows[GUARD], rows[PLAIN])] == [(2.5, 1e-5), (None, None)]


def test_the_empirical_epsilon_says_that_it_is_no_bound_wherever_its_name_stands(world: World) -> None:
    world.guess(PLAIN, "x/one", RIGHT)
    world.trained(PLAIN, 0.5)
    columns = {column.key: column.label for table in world.report().tables for column in table.columns}
    assert {key: label for key, label in columns.items() if "epsilon" in label} == {
        "empirical": "empirical epsilon, no bound",
        "epsilon": "promised epsilon",
    }


def test_a_curve_is_dense_where_few_are_accused() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(40_000) < 20_000
    score = rng.normal(size=40_000) + member
    x, y = roc(score, member, 200)
    assert len(x) <= 200
    assert x[(x > 0)].min() == 1 / 20_000
    assert np.sum((x > 0) & (x < 0.001)) >= 12
    order = np.sort(score[~member])[::-1]
    for rate, true_rate in zip(x[1:-1], y[1:-1], strict=True):
        allowed = round(rate * 20_000)
        assert true_rate == np.mean(score[member] > order[allowed])


def test_the_outputs_of_a_network_are_no_estimate_where_risk_scores_are_one(world: World) -> None:
    """All rows get .75 by the score and .99 by the network, and half of them are members: errors of .25 and .49."""
    world.trained(PLAIN, 0.5)
    world.guess(PLAIN, "harness/privacy-risk", [0.25] * 4)
    assert "estimates" not in {table.id for table in world.report().tables}, "a contrast takes both"
    world.guess(PLAIN, "harness/neural[width=64]", [float(np.log(99))] * 4)
    world.guess(PLAIN, "harness/neural[width=64]", WRONG, adaptive=False)
    table = next(table for table in world.report().tables if table.id == "estimates")
    assert [column.label for column in table.columns] == ["harness/privacy-risk", "harness/neural[width=64]"]
    row = world.table("estimates")[PLAIN]
    assert (row["e0"], row["e1"]) == (pytest.approx(0.25), pytest.approx(0.49, abs=1e-6))


def test_risk_above_the_prior_is_told_where_there_are_several_priors(world: World) -> None:
    world.trained(PLAIN, 0.5)
    world.guess(PLAIN, "harness/privacy-risk", [0.4, 0.2, -0.1, -0.3])
    assert "priors" not in {table.id for table in world.report().tables}
    world.guess(PLAIN, "harness/privacy-risk[prior=0.1]", [-0.3, -0.2, -0.5, -0.5])
    rows = world.table("priors")
    assert list(rows) == ["harness/privacy-risk[prior=0.1]", "harness/privacy-risk"]
    assert [row["prior"] for row in rows.values()] == [0.1, 0.5]
    assert [row["gain"] for row in rows.values()] == pytest.approx([0.25 - 0.1, 0.8 - 0.5])


def test_sensitivity_by_risk_score_and_the_spread_of_scores(world: World) -> None:
    world.trained(PLAIN, 0.5)
    world.guess(PLAIN, "harness/privacy-risk", RIGHT)  # members have .9 and .7, in turn
    rows = ROW[MEMBER]
    moved = np.where(np.arange(len(rows)) % 2 == 0, np.arange(len(rows)), -1.0)
    world.put("sensitivity", {"defense": PLAIN}, {"rows": 20, "split": 0}, {"row": rows, "sensitivity": moved})
    table_rows = world.table("sensitivity-by-score")
    assert list(table_rows) == ["score 0.7 to below 0.8", "score 0.9 to 1.0"]
    assert table_rows["score 0.7 to below 0.8"] == {"first": -1, "mean": -1, "third": -1}
    first, third = np.quantile(np.arange(0, 20, 2), [0.25, 0.75])
    assert table_rows["score 0.9 to 1.0"] == {"first": first, "mean": 9, "third": third}
    (curve,) = next(chart for chart in world.report().charts if chart.id == "risk-scores").series
    assert curve.x == pytest.approx([0.7, 0.9], abs=1e-6)
    assert curve.y == (0.5, 1.0)

"""Tables of the track on a few hand-made results whose numbers can be worked out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from imharness.leaderboard import Blocks, Table, Value
from imharness.results.identity import ComponentRef
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness_reconstruction.ranked import BASELINE, _common_settings
from imharness_reconstruction.tables import report

IMAGES = ["b", "a"]
PLAIN, PRUNED, HIDDEN = "harness/plain-gradient", "x/pruning", "x/hiding"
PSNR, SETS = "harness/psnr", "x/sets"


class Results:
    """A store that is filled by hand."""

    def __init__(self, folder: Path) -> None:
        self.store, self.records = Store(folder), []

    def add(self, step: str, rows: Mapping[str, Sequence], **roles: str) -> str:
        roles = {"dataset": "x/d", **({"model": "x/m"} if "defense" in roles else {}), **roles}
        key = f"{len(self.records):064d}"
        spec = TaskSpec(
            track="harness/reconstruction",
            step=step,
            version="1",
            options={},
            limit=None,
            seed=0,
            needs={},
            components={
                r: ComponentRef(kind=r, id=label, version="1", label=label, parameters={}) for r, label in roles.items()
            },
        )
        bare = TaskRecord(key=key, spec=spec, status="done", started="", seconds=0.0, device="", versions={})
        self.records.append(self.store.commit(bare, {k: np.asarray(v) for k, v in rows.items()}, {}))
        return key

    def leaks(self, defense: str, score: Sequence[float], attack: str = "x/a") -> None:
        rows = {"name": IMAGES, "score": np.float32(score), "closeness": [1, 1]}
        self.add("leakage", rows, defense=defense, attack=attack, metric=PSNR)

    def tables(self) -> dict[str, Table]:
        return {table.id: table for table in report(ResultQuery(self.store, self.records)).tables}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def means(table: Table, column: str) -> dict[str, float | None]:
    return {row.label: row.values[column].value for row in table.rows}


def test_the_model_that_leaks_least_stands_first_and_one_without_a_number_last(results: Results) -> None:
    results.leaks(PLAIN, [20, 30])
    results.leaks(PRUNED, [5, 10])
    results.leaks(HIDDEN, [np.nan, np.nan])
    results.leaks(PLAIN, [40, 50], attack="x/b")
    for defense in (PRUNED, HIDDEN):
        results.add("distribution", {"score": [3.0], "closeness": [-1]}, defense=defense, attack="x/a", metric=SETS)
    tables = results.tables()
    assert list(tables)[:3] == ["ranking", "worst-by-metric", "models"]
    first = {"x/m + x/pruning": 7.5, "x/m + harness/plain-gradient": 25, "x/m + x/hiding": None}
    assert list(means(tables["models"], PSNR).items()) == list(first.items())
    assert list(means(tables["models"], SETS).values()) == [3, None, 3]
    columns = [(c.key, c.better) for c in tables["models"].columns]
    assert columns == [(PSNR, "lower"), (SETS, "higher"), ("converged", ""), ("loss", "")]
    assert means(tables["models-b"], PSNR) == {"x/m + harness/plain-gradient": 45}


def test_every_metric_compares_models_by_itself_and_knows_its_direction(results: Results) -> None:
    results.leaks(PLAIN, [20, 30])
    rows = {"name": IMAGES, "score": [1.0, 2.0], "closeness": [-1, -1]}
    results.add("leakage", rows, defense=PLAIN, attack="x/a", metric="x/mse")
    _, psnr, mse = report(ResultQuery(results.store, results.records)).comparisons
    assert [condition["metric"] for paired in (psnr, mse) for condition in paired.conditions] == [PSNR, "x/mse"]
    assert (psnr.better, mse.better) == ("lower", "higher")
    assert psnr.units == mse.units == (("x/d b", "x/d a"),)
    assert [block.tolist() for block in (*psnr.values, *mse.values)] == [[[20, 30]], [[1, 2]]]


def test_a_model_without_a_number_of_one_metric_breaks_no_table(results: Results) -> None:
    results.leaks(PLAIN, [20, 30])
    rows = {"name": IMAGES, "score": [1.0, 2.0], "closeness": [-1, -1]}
    results.leaks(HIDDEN, [10, 20])
    for defense in (PLAIN, PRUNED):
        results.add("leakage", rows, defense=defense, attack="x/a", metric="x/mse")
    beside = results.tables()["worst-by-metric"]
    assert means(beside, PSNR) == {f"x/m + {HIDDEN}": 15, f"x/m + {PLAIN}": 25}
    assert means(beside, "x/mse") == {f"x/m + {HIDDEN}": None, f"x/m + {PLAIN}": 1.5}
    assert beside.rows[0].values["x/mse"].missing == "not measured"


def fit(converged: Sequence[bool], state: str = "as initialised") -> dict[str, Sequence]:
    """Return rows of the step `reconstruct` for `IMAGES`."""
    return {"name": IMAGES, "source": IMAGES, "state": [state] * 2, "converged": converged}


def judged(results: Results, defense: str, score: Sequence[float], converged: Sequence[bool]) -> None:
    """Store the PSNR of an attack's reconstructions, and for which images the attack converged."""
    names = [f"i{n}" for n in range(len(score))]
    rows = {"name": names, "score": np.float32(score), "closeness": [1] * len(names)}
    results.add("leakage", rows, defense=defense, attack="x/a", metric=PSNR)
    rows = {"name": names, "source": names, "state": ["as initialised"] * len(names), "converged": converged}
    results.add("reconstruct", rows, defense=defense, attack="x/a")


def test_a_model_is_not_ranked_where_the_attack_converged_for_few_images(results: Results) -> None:
    judged(results, PLAIN, [40, 6], [True, False])
    judged(results, PRUNED, [5, 6], [False, False])
    models = results.tables()["models"]
    assert means(models, PSNR) == {f"x/m + {PLAIN}": 40, f"x/m + {PRUNED}": None}
    assert means(models, "converged") == {f"x/m + {PLAIN}": 0.5, f"x/m + {PRUNED}": 0}
    assert models.rows[1].values[PSNR].missing == "not ranked: the attack converged for 0 of 2 images"


def test_ranked_models_are_compared_on_the_images_on_which_the_attack_converged_for_all(results: Results) -> None:
    score = np.array([15.0, 16, 17, 18, 19, 29, 30, 31, 32, 33])
    judged(results, PLAIN, score + 1, score < 20)
    judged(results, PRUNED, score, [True] * 10)
    judged(results, HIDDEN, score, score > 32)
    models = results.tables()["models"]
    assert list(means(models, PSNR).items()) == [
        (f"x/m + {PRUNED}", 17),
        (f"x/m + {PLAIN}", 18),
        (f"x/m + {HIDDEN}", None),
    ]
    assert [row.values[PSNR].n for row in models.rows[:2]] == [5, 5]
    assert list(means(models, "converged").values()) == [1, 0.5, 0.1]


def test_models_without_a_common_image_say_so(results: Results) -> None:
    judged(results, PLAIN, [20, 30], [True, False])
    judged(results, PRUNED, [20, 30], [False, True])
    for row in results.tables()["models"].rows:
        assert row.values[PSNR].missing == "there is no image on which the attack converged for every ranked model"


def test_trained_models_have_a_table_beside_those_as_initialised(results: Results) -> None:
    for model, score, state in (("x/m", [30, 40], "trained"), ("x/first", [20, 30], "as initialised")):
        rows = {"name": IMAGES, "score": np.float32(score), "closeness": [1, 1]}
        results.add("leakage", rows, model=model, defense=PLAIN, attack="x/a", metric=PSNR)
        results.add("reconstruct", fit([True, True], state), model=model, defense=PLAIN, attack="x/a")
    tables = results.tables()
    assert means(tables["models"], PSNR) == {f"x/first + {PLAIN}": 25}
    assert means(tables["models-a-trained"], PSNR) == {f"x/m + {PLAIN}": 35}


def test_the_network_as_initialised_is_a_state_of_the_model_that_was_trained(results: Results) -> None:
    """What leaks in the first round counts for the trained model, too; an undefended first round is also a control."""
    trained, first = "harness/lenet[channels=16,activation=relu]", "harness/untrained"
    for defense, early, late in ((PLAIN, [40, 41], [20, 21]), (PRUNED, [30, 10], [15, 16])):
        for model, score, state in ((first, early, "as initialised"), (trained, late, "trained")):
            rows = {"name": IMAGES, "score": np.float32(score), "closeness": [1, 1]}
            results.add("leakage", rows, model=model, defense=defense, attack="x/a", metric=PSNR)
            results.add("reconstruct", fit([True, True], state), model=model, defense=defense, attack="x/a")
        results.add("train", {"name": IMAGES, "right": [True, True]}, model=trained, defense=defense)
    tables_report = report(ResultQuery(results.store, results.records))
    expected = {f"{trained} + {PRUNED}": 23, f"{trained} + {PLAIN}": 40.5, f"{first} + {PLAIN}": 40.5}
    assert means(tables_report.tables[0], "worst") == expected
    controls = {entry: position.control for entry, position in tables_report.rankings[0].places.items()}
    assert controls[f"{first} + {PLAIN}"] == "an untrained network"
    assert controls[f"{trained} + {PLAIN}"] == "no defense"
    assert tables_report.rankings[0].over == ("attack", "attacker", "state")


def test_models_that_share_no_attack_are_not_set_against_each_other(results: Results) -> None:
    for number, name in enumerate(("x/m", "x/n", "x/it's")):
        attack = f"x/a{number}"
        rows = {"name": IMAGES, "score": np.float32([20, 30]), "closeness": [1, 1]}
        results.add("leakage", rows, model=name, defense=PLAIN, attack=attack, metric="x/it's")
        results.add("reconstruct", fit([True, True], "trained"), model=name, defense=PLAIN, attack=attack)
        results.add("train", {"name": IMAGES, "right": [True, True]}, model=name, defense=PLAIN)
    table = results.tables()["ranking"]
    assert len(table.rows) == 1
    assert table.note.count("x/") == 2


def test_what_the_attack_that_knows_of_pruning_reaches_stands_beside_the_one_that_does_not(results: Results) -> None:
    """Against pruning the unaware attack reaches 9 dB and the adaptive one 17: the worst case is the adaptive one."""
    plain, unaware = [16, 20], "x/a[surviving=False]"
    reached = {(PLAIN, unaware): plain, (PLAIN, "x/a"): plain, (PRUNED, unaware): [8, 10], (PRUNED, "x/a"): [15, 19]}
    for (defense, attack), score in reached.items():
        results.leaks(defense, score, attack=attack)
    facts = {"kind": "attack", "control": ""}
    components = [
        {**facts, "label": "x/a[surviving=False]", "parameters": '{"surviving": false}'},
        {**facts, "label": "x/a", "parameters": '{"surviving": true}'},
        {"kind": "defense", "label": PRUNED, "control": "a control of its own", "parameters": "{}"},
    ]
    report_tables = report(ResultQuery(results.store, results.records, components))
    table, (ranking,) = report_tables.tables[0], report_tables.rankings
    assert means(table, "unaware") == {f"x/m + {PRUNED}": 9, f"x/m + {PLAIN}": 18}
    assert means(table, "aware") == {f"x/m + {PRUNED}": 17, f"x/m + {PLAIN}": 18}
    assert means(table, "worst") == {f"x/m + {PRUNED}": 17, f"x/m + {PLAIN}": 18}
    assert ranking.places[f"x/m + {PRUNED}"].broken_by == {"x/a": 1.0}
    assert ranking.places[f"x/m + {PRUNED}"].control == "a control of its own"


def test_images_that_came_back_exactly_count_as_the_noise_of_8_bits(results: Results) -> None:
    results.leaks(PLAIN, [160, 40])
    assert means(results.tables()["models"], PSNR)[f"x/m + {PLAIN}"] == pytest.approx((58.92 + 40) / 2, abs=0.01)


def test_an_example_that_came_back_exactly_shows_the_noise_of_8_bits(results: Results) -> None:
    results.leaks(PLAIN, [160, 40])
    results.add("gallery", {"position": [0, 1], "name": IMAGES})
    results.add("reconstruct", {}, defense=PLAIN, attack="x/a")
    examples = report(ResultQuery(results.store, results.records)).examples
    assert [example.panels[1].score for example in examples] == ["58.9 dB", "40.0 dB"]


def test_people_decide_where_they_were_asked_and_the_judge_elsewhere(results: Results) -> None:
    for attack in ("x/a", "x/b"):
        results.leaks(PLAIN, [20, 30], attack=attack)
        rows = {"name": IMAGES, "recognised": [True, True]}
        results.add("recognise", rows, defense=PLAIN, attack=attack, judge="x/j")
    results.add("external", {"name": IMAGES, "recognised": [False, True]}, defense=PLAIN, attack="x/a")
    tables = results.tables()
    assert means(tables["models"], "recognised") == {"x/m + harness/plain-gradient": 0.5}
    assert means(tables["models-b"], "recognised") == {"x/m + harness/plain-gradient": 1}
    columns = {c.key: c.description for c in tables["models"].columns}, {c.key: c for c in tables["models-b"].columns}
    assert columns[0]["recognised"].endswith("; people.")
    assert "proxy" in columns[1]["recognised"].description


def test_the_metric_that_ranks_models_as_people_do_stands_first(results: Results) -> None:
    for number in range(6):
        defense = f"x/d{number}"
        results.leaks(defense, [number, number])
        rows = {"name": IMAGES, "score": [float(number % 3)] * 2, "closeness": [1, 1]}
        results.add("leakage", rows, defense=defense, attack="x/a", metric="x/other")
        rows = {"name": IMAGES, "recognised": [number > 3, number > 1]}
        results.add("recognise", rows, defense=defense, attack="x/a", judge="x/j")
    agreement = results.tables()["agreement"]
    assert [row.label for row in agreement.rows] == [PSNR, "x/other"]
    assert agreement.rows[0].values["x/d, x/a rho"].value == pytest.approx(0.956, abs=1e-3)
    assert agreement.note.startswith("proxy")


@pytest.mark.parametrize("baseline", [True, False])
def test_the_cost_is_the_accuracy_lost(results: Results, baseline: bool) -> None:
    results.leaks(PLAIN, [20, 30])
    results.add("train", {"name": IMAGES, "right": [True, False]}, defense=PRUNED)
    if baseline:
        results.add("train", {"name": IMAGES, "right": [True, True]}, defense=PLAIN)
    cost = results.tables()["cost"]
    assert means(cost, "accuracy")[PRUNED] == means(cost, "x/d x/m")[PRUNED] == 0.5
    assert means(cost, "cost")[PRUNED] == (0.5 if baseline else None)
    assert cost.rows[0].label == (PLAIN if baseline else PRUNED)


def test_the_accuracy_of_defenses_is_over_the_models_that_all_were_trained_with(results: Results) -> None:
    results.leaks(PLAIN, [20, 30])
    for model, defense, right in (("x/m", PLAIN, [1, 1]), ("x/m", PRUNED, [1, 0]), ("x/hard", PLAIN, [0, 0])):
        results.add("train", {"name": IMAGES, "right": np.array(right, dtype=bool)}, model=model, defense=defense)
    cost = results.tables()["cost"]
    assert means(cost, "accuracy") == {PLAIN: 1, PRUNED: 0.5}
    assert means(cost, "x/d x/hard") == {PLAIN: 0, PRUNED: None}
    assert means(cost, "cost") == {PLAIN: 0, PRUNED: 0.5}


def test_examples_show_the_attack_that_rebuilds_the_image_best(results: Results) -> None:
    private = results.add("gallery", {"position": [0], "name": ["b"]})
    rebuilt = {}
    for defense, attack, score in ((PLAIN, "x/a", 15), (PLAIN, "x/b", 20.04), (PLAIN, "x/c", 10), (PRUNED, "x/a", 5)):
        results.leaks(defense, [score, 30], attack=attack)
        rebuilt[defense, attack] = results.add("reconstruct", {}, defense=defense, attack=attack)
    examples = report(ResultQuery(results.store, results.records)).examples
    assert [example.entry for example in examples] == [f"x/m + {PLAIN}", f"x/m + {PRUNED}"]
    first, second = examples[0].panels
    assert (first.task, second.task, second.score) == (private, rebuilt[PLAIN, "x/b"], "20.0 dB")


def test_a_model_on_which_few_attacks_converged_has_no_score() -> None:
    units, about = (
        np.array([f"i{i}" for i in range(4)], dtype=object),
        {"source": (np.array(list("abcd"), dtype=object),)},
    )
    failed = np.array([[0, 0, 0, 0], [0, 1, 1, 1]], dtype=np.float32)
    score = np.where(failed == 1, np.nan, 1).astype(np.float32)
    names = (f"lenet + {BASELINE}", "lenet + mixup")
    condition = dict.fromkeys(("dataset", "attack", "attacker", "state", "metric"), "x")
    scores = Blocks(names, (condition,), (units,), {"score": (score,), "failed": (failed,)}, about)
    retained, unknown = _common_settings(scores, dict.fromkeys(names, Value(value=0.5)))
    assert unknown == {names[1]: "attacks converged for 1 of 4 images only"}
    assert np.isnan(retained.values["score"][0]).all(axis=1).tolist() == [False, True]


def trained(results: Results, model: str, defense: str, right: float) -> None:
    """Train a model that classifies a share of 400 images right, and attack it on 20 of them."""
    names = [f"t{n:03d}" for n in range(400)]
    rows = {"name": names, "source": names, "right": (np.arange(400) < 400 * right).tolist()}
    results.add("train", rows, defense=defense, model=model)
    leaked = {"name": names[:20], "score": np.float32(np.arange(20) + 10), "closeness": [1] * 20}
    results.add("leakage", leaked, defense=defense, model=model, attack="x/a", metric=PSNR)


@pytest.mark.parametrize("strangers", [(), ("evil/oracle",)])
def test_the_gate_is_the_harness_s_own_undefended_model_whoever_brings_a_better_one(
    results: Results, strangers: Sequence[str]
) -> None:
    for model, right in {"harness/cnn": 0.9, "harness/mlp": 0.6, **dict.fromkeys(strangers, 1.0)}.items():
        trained(results, model, PLAIN, right)
    trained(results, "harness/cnn", "harness/pruning", 0.9)
    (ranking,) = report(ResultQuery(results.store, results.records)).rankings
    assert ranking.undefended == f"harness/cnn + {PLAIN}"
    assert ranking.gate == pytest.approx(0.95 * 0.9)
    assert ranking.places["harness/cnn + harness/pruning"].gate == "passes"


def test_where_no_setting_is_common_the_harness_s_own_models_say_which_one_counts(results: Results) -> None:
    """Of five models of the harness two met "x/a", and no other two the same attack; ten of a stranger met "x/b"."""
    baselines = {"harness/a": "x/a", "harness/b": "x/a", "harness/c": "x/b", "harness/d": "x/c", "harness/e": "x/d"}
    for model, attack in {**baselines, **{f"evil/{i}": "x/b" for i in range(10)}}.items():
        rows = {"name": IMAGES, "score": np.float32([20, 30]), "closeness": [1, 1]}
        results.add("leakage", rows, defense=PLAIN, model=model, attack=attack, metric=PSNR)
    (comparison,) = report(ResultQuery(results.store, results.records)).comparisons[:1]
    assert {condition["attack"] for condition in comparison.conditions} == {"x/a"}

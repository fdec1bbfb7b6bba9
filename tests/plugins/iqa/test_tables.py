"""Scores and tables against closed forms and numbers worked out by hand."""

import numpy as np
import pytest
from scipy.stats import kruskal, pearsonr, spearmanr

from imharness_iqa.tables import certified, grouped, overall, parameters, trained, transfer
from imharness_iqa.tables.data import (
    EPS,
    Study,
    best_configurations,
    correlation,
    mean_of,
    scored,
    where,
    with_baseline,
)
from imharness_iqa.tables.sampling import validity


def rows(score: list[float], source: list[float], **more) -> dict[str, np.ndarray]:
    n = len(score)
    columns = {
        "dataset": ["d"] * n, "metric": ["m"] * n, "method": ["a"] * n, "strength": ["weak"] * n,
        "adaptive": [False] * n, "defense": ["x/one"] * n, "name": [f"i{k}" for k in range(n)],
        "mos": list(range(n)), "score": score, "source": source, "defended": source, "lower": [0.0] * n,
        "upper": [10.0] * n, "psnr": [30.0] * n, "ssim": [0.9] * n, "mse": [0.001] * n, "linf": [0.1] * n,
        "access": ["white_box"] * n, "norm": ["linf"] * n, **more,
    }  # fmt: skip
    return {name: np.array(values) for name, values in columns.items()}


def study(found: dict[str, np.ndarray], **more) -> Study:
    complete = with_baseline(scored(found))
    clean = {k: complete[k] for k in ("dataset", "metric", "defense", "name", "mos")} | {"score": complete["defended"]}
    clean["condition"] = np.array(["d · m"] * len(clean["name"]))
    best = best_configurations(complete, more.pop("entries", {}))
    return Study(
        complete, clean, best, more.pop("groups", {}), more.pop("times", {}), more.pop("trained", frozenset()), ""
    )


def test_d_and_r_are_those_of_the_paper() -> None:
    found = scored(rows([5.0, 2.0, 9.0], [4.0, 2.0, 2.0], defended=[5.0, 1.0, 8.0]))
    np.testing.assert_allclose(found["d"], [10.0, 0.0, 70.0])
    np.testing.assert_allclose(found["r"][0], np.log10(0.6 / (0.1 + EPS)))
    np.testing.assert_allclose(found["r"][2], np.log10(0.8 / (0.7 + EPS)))
    assert found["r"][1] == pytest.approx(np.log10(0.8 / EPS))
    assert found["ties"].tolist() == [0, 100, 0]
    np.testing.assert_allclose(found["dd"], [0.0, 10.0, 10.0])
    np.testing.assert_allclose(found["rd"], np.log10(np.array([0.5, 0.9, 0.8]) / (np.array([0, 0.1, 0.1]) + EPS)))
    np.testing.assert_allclose(found["r_without_ties"], [found["r"][0], np.nan, found["r"][2]])


def test_each_image_counts_once_and_what_is_not_finite_is_left_out() -> None:
    two = scored(rows([5.0, 2.0, 4.0], [4.0, 2.0, 4.0], name=["i0", "i1", "i0"], strength=["weak", "weak", "strong"]))
    assert mean_of(two, "d").value == pytest.approx(np.mean([(10 + 0) / 2, 0]))
    assert mean_of(two, "d").n == 2
    two["psnr"] = np.array([np.inf, 30.0, 20.0])
    assert mean_of(two, "psnr").value == pytest.approx(25)
    assert mean_of(where(two, two["psnr"] > 99), "psnr").missing


def test_correlations_are_scipys_and_a_constant_score_is_not_testable() -> None:
    score = [3.0, 1.0, 2.0, 5.0, 4.0, 4.0]
    found = scored(rows(score, [0.0] * 6))
    rho = correlation(found)
    assert rho.value == pytest.approx(spearmanr(score, range(6)).statistic)
    assert rho.low <= rho.value <= rho.high
    linear = correlation(found, "pearson", resampled=False)
    assert linear.value == pytest.approx(pearsonr(score, range(6)).statistic)
    assert correlation(scored(rows([1.0] * 6, [0.0] * 6))).missing
    assert "judged" in correlation(scored(rows(score, [0.0] * 6, mos=[np.nan] * 6))).missing


def test_two_data_sets_with_the_same_names_are_correlated_apart() -> None:
    score, mos = [1.0, 2.0, 3.0, 3.0, 2.0, 1.0], [1, 2, 3, 1, 2, 3]
    found = rows(score, [0.0] * 6, mos=mos, name=["a", "b", "c"] * 2, dataset=["d"] * 3 + ["e"] * 3)
    both = correlation(scored(found))
    assert both.value == pytest.approx(0)
    assert both.n == 6


def test_the_baseline_stands_in_both_halves_and_the_best_parameter_is_shown() -> None:
    defenses = ["harness/none", "x/jpeg[q=1]", "x/jpeg", "x/jpeg"]
    found = study(
        rows(
            [9.0, 6.0, 8.0, 7.0],
            [5.0] * 4,
            defense=defenses,
            adaptive=[False, False, False, True],
            name=["i"] * 4,
            mos=[1] * 4,
        ),
        entries={"x/jpeg[q=1]": "x/jpeg", "x/jpeg": "x/jpeg"},
        times={"x/jpeg[q=1]": 2.5},
    )
    assert found.chosen() == ["harness/none", "x/jpeg[q=1]"]
    main = overall.tables(found)[0]
    by_label = {row.label: row.values for row in main.rows}
    assert [row.label for row in main.rows] == ["x/jpeg[q=1]", "harness/none"]
    assert by_label["harness/none"]["fixed_d"].value == by_label["harness/none"]["adaptive_d"].value == 40
    assert by_label["x/jpeg[q=1]"]["fixed_d"].value == 10
    assert "no attack" in by_label["x/jpeg[q=1]"]["adaptive_d"].missing
    assert by_label["x/jpeg[q=1]"]["ms"].value == 2.5
    assert by_label["x/jpeg[q=1]"]["fixed_coverage"].value == 100


def test_groups_are_by_strength_metric_type_and_defense() -> None:
    found = study(
        rows(
            [6.0, 7.0, 8.0, 9.0],
            [5.0] * 4,
            strength=["weak", "strong", "weak", "strong"],
            access=["white_box", "white_box", "black_box", "white_box"],
            norm=["linf", "unrestricted", "linf", "linf"],
            defense=["x/one", "x/one", "x/two", "x/two"],
            name=["i", "i", "i", "i"],
        ),
        groups={"x/one": "filter", "x/two": "filter"},
    )
    tables = {table.id: table for table in grouped.tables(found)}
    strength = tables["by-strength-fixed"]
    assert [c.label for c in strength.columns[:2]] == ["D, weak", "D, strong"]
    one = {row.label: row.values for row in strength.rows}["x/one"]
    assert (one["0_d"].value, one["1_d"].value) == (10, 20)
    kinds = [c.label for c in tables["by-type-fixed"].columns[:3]]
    assert kinds == ["D, black-box", "D, white-box, bounded", "D, white-box, unrestricted"]
    assert "by-metric-fixed" not in tables
    group = tables["by-group"].rows[0]
    assert (group.label, group.title) == ("filter", "x/one, x/two")
    assert group.values["fixed_d"].value == pytest.approx(np.mean([10, 20, 30, 40]))


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    cost, gain = np.array([1.0, 2.0, 3.0, 2.0, np.nan]), np.array([0.2, 0.5, 0.4, 0.5, 0.9])
    assert parameters.front(cost, gain).tolist() == [True, True, False, True, False]


def test_transfer_is_the_mean_change_behind_the_other_defense() -> None:
    class Rows:
        steps = frozenset({"transfer"})

        def __call__(self, sql: str) -> dict[str, np.ndarray]:
            parts = {"source": ["x/a"] * 3, "defense": ["x/a", "x/b", "x/b"], "dataset": ["d"] * 3, "d": [10.0, 20, 40]}
            return {k: np.array(v) for k, v in parts.items()} | {"name": np.array(["i", "i", "j"])}

    (table,) = transfer.tables(Rows(), study(rows([1.0], [1.0])))
    assert [c.label for c in table.columns] == ["x/a", "x/b"]
    assert [table.rows[0].values[f"c{i}"].value for i in (0, 1)] == [10, 30]


def test_sampling_validity_is_scipys_kruskal_wallis_over_the_draws() -> None:
    rng = np.random.default_rng(0)
    n = 200
    names = np.array([f"i{k:03d}" for k in range(n)])
    features = {"name": names, **{k: rng.normal(size=n) for k in ("si", "cf", "mos")}}
    scores = {"name": names, **{k: rng.normal(size=n) for k in ("source", "attacked", "defended", "score")}}
    table = validity("d", features, scores, "", per_cluster=5)
    from imharness_iqa.sampling import clustered

    points = np.column_stack([features[k] for k in ("si", "cf", "mos")])
    draws = [scores["source"][clustered(points, 5, draw)] for draw in range(10)]
    first = table.rows[0].values
    assert first["p"].value == pytest.approx(kruskal(*draws).pvalue)
    assert first["mean"].value == pytest.approx(np.mean([d.mean() for d in draws]))
    assert first["variance"].value == pytest.approx(np.var([d.mean() for d in draws]))
    assert 0.01 < first["p"].value <= 1


def test_training_defenses_stand_beside_the_metrics_they_were_tried_on_and_nowhere_else() -> None:
    n = 8
    found = study(
        rows(
            [9.0, 8.0, 6.0, 9.0, 5.0, 7.0, 5.0, 6.0],
            [5.0] * n,
            defended=[5.0] * 4 + [5.0, 5.0, 4.0, 4.0],
            defense=["harness/none"] * 4 + ["x/hard"] * 4,
            metric=["m", "m", "other", "other"] + ["m"] * 4,
            adaptive=[False] * 4 + [False, False, True, True],
            name=["i", "j"] * 4,
            mos=[1, 2] * 4,
        ),
        trained=frozenset({"x/hard"}),
    )
    assert found.chosen() == ["harness/none"]
    (table,) = trained.tables(found)
    by_label = {row.label: row.values for row in table.rows}
    assert list(by_label) == ["harness/none", "x/hard"]
    assert by_label["harness/none"]["fixed_dd"].value == pytest.approx(35)
    assert by_label["harness/none"]["adaptive_dd"].value == pytest.approx(35)
    assert by_label["x/hard"]["fixed_dd"].value == pytest.approx(10)
    assert by_label["x/hard"]["adaptive_dd"].value == pytest.approx(15)
    assert by_label["x/hard"]["adaptive_d"].value == pytest.approx(5)
    assert trained.tables(study(rows([1.0], [1.0]))) == []
    compared = overall.comparisons(found, grouped.attack_types(found.rows))
    assert "x/hard" in {label for paired in compared if paired.id.startswith("wins-d") for label in paired.entries}


def test_more_classes_move_borders_nearer() -> None:
    certified_rows = {
        "dataset": ["d"] * 8, "metric": ["m"] * 8, "name": list("abcd") * 2, "mos": [1, 2, 3, 4] * 2,
        "entry": ["x/rs"] * 8, "defense": ["x/rs[classes=2]"] * 4 + ["x/rs"] * 4, "classes": [2] * 4 + [5] * 4,
        "score": [1.0, 1, 2, 2, 1, 2, 3, 4], "source": [1.0, 3, 6, 8] * 2, "defended": [1.0, 3, 6, 8] * 2,
        "lower": [0.0] * 8, "upper": [10.0] * 8, "radius": [0.3] * 4 + [0.1, 0.1, 0.0, 0.2], "mse": [np.nan] * 8,
        "delta": [np.nan] * 8, "abstained": [False] * 6 + [True, False], "attacked": [False] * 8, "method": [""] * 8,
        "strength": [""] * 8, "adaptive": [False] * 8,
    }  # fmt: skip

    class Rows:
        steps = frozenset({"certify", "smooth", "clean"})

        def __call__(self, sql: str) -> dict[str, np.ndarray]:
            if "max(attacked)" in sql:
                return {"any": np.array([False])}
            if "smooth_tasks" in sql:
                return {"defense": np.array(["x/rs"]), "seconds": np.array([2.0])}
            return {name: np.array(values) for name, values in certified_rows.items()}

    main, classes = certified.tables(Rows(), "")
    assert [row.label for row in main.rows] == ["x/rs"]
    by_label = {row.label: row.values for row in classes.rows}
    assert list(by_label) == ["x/rs, 2", "x/rs, 5", "x/rs, no classes"]
    assert by_label["x/rs, 2"]["radius"].value == pytest.approx(0.3)
    assert by_label["x/rs, 5"]["radius"].value == pytest.approx(0.1)
    assert by_label["x/rs, 5"]["srocc"].value == by_label["x/rs, no classes"]["srocc"].value == 1
    assert by_label["x/rs, 2"]["srocc"].value == pytest.approx(spearmanr([1, 1, 2, 2], [1, 2, 3, 4]).statistic)


def test_a_variant_without_a_number_does_not_win_the_parameter_study() -> None:
    found = rows([5.0, 2.0, float("nan"), float("nan")], [4.0, 2.0, 4.0, 2.0], name=["i0", "i1"] * 2,
                 defense=["x/one", "x/one", "x/none", "x/none"])  # fmt: skip
    (table,) = parameters.tables(study(found))
    assert [row.label for row in table.rows] == ["x/one", "x/none"]
    assert table.rows[1].values["d"].missing

"""Scores and tables against closed forms and numbers worked out by hand, on stores that are written by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kruskal, pearsonr, spearmanr
from tests.iqa_rows import Finished, rows

from imharness.errors import UsageError
from imharness.leaderboard import ColumnSpec, Value
from imharness.results.query import ResultQuery
from imharness_iqa.sampling import clusters_of, disjoint
from imharness_iqa.tables import (
    between_metrics,
    certified,
    distortion,
    grouped,
    overall,
    parameters,
    report,
    trained,
    transfer,
)
from imharness_iqa.tables.formulas import EPS, moved
from imharness_iqa.tables.sampling import by_draw, distributions, drawn, published, studies, validity


def test_d_and_r_are_those_of_the_paper(study) -> None:
    blocks = study(rows([5.0, 2.0, 9.0], [4.0, 2.0, 2.0], defended=[5.0, 1.0, 8.0])).attacked.blocks
    values = {name: blocks.values[name][0][0] for name in blocks.values}
    np.testing.assert_allclose(values["d"], [10.0, 0.0, 70.0])
    np.testing.assert_allclose(values["r"], np.log10(np.array([0.6, 0.8, 0.8]) / (np.array([0.1, 0, 0.7]) + EPS)))
    assert values["ties"].tolist() == [0, 100, 0]
    np.testing.assert_allclose(values["dd"], [0.0, 10.0, 10.0])
    np.testing.assert_allclose(values["rd"], np.log10(np.array([0.5, 0.9, 0.8]) / (np.array([0, 0.1, 0.1]) + EPS)))
    np.testing.assert_allclose(values["r_without_ties"], [values["r"][0], np.nan, values["r"][2]])
    np.testing.assert_allclose(values["mse"], [1.0] * 3)
    d, r = moved(np.array([[11.0]]), np.array([[5.0]]), np.array([0.0]), np.array([10.0]))
    np.testing.assert_allclose((d[0, 0], r[0, 0]), (60, np.log10(0.5 / (0.6 + EPS))))


def test_each_image_counts_once_and_what_is_not_finite_is_left_out(study) -> None:
    columns = rows([5.0, 2.0, 4.0], [4.0, 2.0, 4.0], name=["i0", "i1", "i0"], strength=["weak", "weak", "strong"])
    two = study({**columns, "psnr": [np.inf, 30.0, 20.0], "ssim": [np.nan] * 3}).attacked
    assert two.mean("d").value == pytest.approx(np.mean([(10 + 0) / 2, 0]))
    assert two.mean("d").n == 2
    assert two.mean("psnr").value == pytest.approx(25)
    assert two.mean("ssim").missing == "no finite value"
    assert two.of("x/other").mean("d").missing == two.where(strength="medium").mean("d").missing == "no result"
    assert two.where(strength=["weak", "strong"]).mean("d") == two.mean("d")


def test_correlations_are_scipys(study) -> None:
    score = [3.0, 1.0, 2.0, 5.0, 4.0, 4.0]
    result = study(rows(score, [0.0] * 6)).attacked
    rho = result.correlation(resampled=True)
    assert rho.value == result.correlation().value == pytest.approx(spearmanr(score, range(6)).statistic)
    assert rho.low <= rho.value <= rho.high
    assert result.correlation("pearson").value == pytest.approx(pearsonr(score, range(6)).statistic)


@pytest.mark.parametrize(
    ("more", "reason"), [({}, "all images have the same score"), ({"mos": [np.nan] * 6}, "nobody judged these images")]
)
def test_a_constant_score_and_images_that_nobody_judged_have_no_correlation(study, more: dict, reason: str) -> None:
    result = study(rows([1.0] * 6, [0.0] * 6, **more)).attacked
    assert reason in result.correlation().missing
    assert result.of("x/other").correlation().missing == "no result"


def test_two_data_sets_with_the_same_names_are_correlated_apart(study) -> None:
    score, mos = [1.0, 2.0, 3.0, 3.0, 2.0, 1.0], [1.0, 2, 3, 1, 2, 3]
    columns = rows(score, [0.0] * 6, mos=mos, name=["a", "b", "c"] * 2, dataset=["d"] * 3 + ["e"] * 3)
    both = study(columns).attacked
    assert both.correlation().value == pytest.approx(0)
    assert both.correlation(resampled=True).n == 6
    assert both.mean("d").n == 6


def test_the_baseline_stands_in_both_halves_and_the_best_parameter_is_shown(study) -> None:
    defenses, images = ["harness/none", "x/jpeg[q=1]", "x/jpeg", "x/other"], 12
    loaded = study(
        rows(
            np.repeat([9.0, 6.0, 8.0, 7.0], images).tolist(),
            [5.0] * 4 * images,
            defense=np.repeat(defenses, images).tolist(),
            adaptive=[False] * 3 * images + [True] * images,
            name=[f"i{k}" for k in range(images)] * 4,
        ),
        entries={"x/jpeg[q=1]": "x/jpeg", "x/jpeg": "x/jpeg"},
        times={"x/jpeg[q=1]": 2.5},
    )
    assert loaded.chosen == ["harness/none", "x/jpeg[q=1]"]
    main = overall.tables(loaded)[0]
    by_label = {row.label: row.values for row in main.rows}
    assert [row.label for row in main.rows] == ["x/jpeg[q=1]", "harness/none"]
    assert by_label["harness/none"]["fixed_d"].value == by_label["harness/none"]["adaptive_d"].value == 40
    assert by_label["x/jpeg[q=1]"]["fixed_d"].value == 10
    assert "no attack" in by_label["x/jpeg[q=1]"]["adaptive_d"].missing
    assert by_label["x/jpeg[q=1]"]["ms"].value == 2.5
    assert by_label["x/jpeg[q=1]"]["fixed_coverage"].value == 100


def test_groups_are_by_strength_metric_type_and_defense(study) -> None:
    loaded = study(
        rows(
            [6.0, 7.0, 8.0, 9.0],
            [5.0] * 4,
            strength=["weak", "strong", "weak", "strong"],
            method=["a", "free", "queries", "a"],
            access=["white_box", "white_box", "black_box", "white_box"],
            norm=["linf", "unrestricted", "linf", "linf"],
            defense=["x/one", "x/one", "x/two", "x/two"],
            name=["i", "i", "i", "i"],
        ),
        groups={"x/one": "filter", "x/two": "filter"},
    )
    tables = {table.id: table for table in grouped.tables(loaded)}
    strength = tables["by-strength-fixed"]
    assert [c.label for c in strength.columns[:2]] == ["D %, weak", "D %, strong"]
    one = {row.label: row.values for row in strength.rows}["x/one"]
    assert (one["weak_d"].value, one["strong_d"].value) == (10, 20)
    kinds = [c.label for c in tables["by-type-fixed"].columns[:3]]
    assert kinds == ["D %, black-box", "D %, white-box, bounded", "D %, white-box, unrestricted"]
    assert "by-metric-fixed" not in tables
    assert "by-architecture-fixed" not in tables
    apart = replace(loaded, groups={"x/one": "zoom", "x/two": "filter"})
    (by_group,) = (table for table in grouped.tables(apart) if table.id == "by-group")
    assert [(row.label, row.title) for row in by_group.rows] == [("filter", "x/two"), ("zoom", "x/one")]
    group = tables["by-group"].rows[0]
    assert (group.label, group.title) == ("filter", "x/one, x/two")
    assert group.values["fixed_d"].value == pytest.approx(np.mean([10, 20, 30, 40]))


def test_the_row_of_no_defense_is_no_mean_with_other_controls(study) -> None:
    labels = ["harness/none", "harness/flat", "x/one"]
    loaded = study(rows([9.0, 6.0, 7.0], [5.0] * 3, defense=labels, name=["i"] * 3))
    loaded = replace(loaded, groups={"harness/none": "none", "harness/flat": "none", "x/one": "zoom"})
    (table,) = (table for table in grouped.tables(loaded) if table.id == "by-group")
    members = {row.label: (row.title, row.values["fixed_d"].value) for row in table.rows}
    assert members == {"none": ("harness/none", 40), "other": ("harness/flat", 10), "zoom": ("x/one", 20)}


def test_each_change_stands_beside_the_one_against_the_defended_clean_score(study) -> None:
    """Clean 5, defended clean 4, attacked 7 of a range of 10: D is 20 and D^D 30; no adaptive attack was made."""
    loaded = study(rows([7.0, 7.0, 7.0], [5.0] * 3, defended=[4.0] * 3))
    (row,) = overall.tables(loaded)[2].rows
    numbers = {name: row.values[f"fixed_{name}"].value for name in ("d", "dd", "r", "rd")}
    wanted = {"d": 20, "dd": 30, "r": np.log10(0.5 / (0.2 + EPS)), "rd": np.log10(0.6 / (0.3 + EPS))}
    assert numbers == pytest.approx(wanted)
    assert row.values["adaptive_dd"].missing


def test_metrics_are_grouped_by_architecture_and_clean_correlations_are_beside_attacked_ones(study, finished) -> None:
    """Two CNNs, which lose 10 and 30 % of the range, a transformer, which loses 5 %, and a metric without a network.

    Clean scores of the CNNs go with opinion (1), those of the transformer go against it (-1); attacked ones are turned.
    """
    images, metrics = 4, ["x/deep", "x/wide", "x/attends", "x/plain"]
    up, lost = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 0.5, 2.0]
    clean = [score for name in metrics for score in (up[::-1] if name == "x/attends" else up)]
    columns = rows(
        [score + lost[k // images] for k, score in enumerate(clean)],
        clean,
        metric=np.repeat(metrics, images).tolist(),
        name=[f"i{k}" for k in range(images)] * 4,
        mos=up * 4,
    )
    kinds = {"x/deep": "CNN", "x/wide": "CNN", "x/attends": "transformer"}
    tables = {table.id: table for table in grouped.tables(study(columns), kinds)}
    table = tables["by-architecture-fixed"]
    (row,) = table.rows
    assert {column.label for column in table.columns} == {
        *(f"{name}, {kind}" for name in ("D %", "R", "SROCC", "SROCC, clean") for kind in ("CNN", "transformer"))
    }
    assert (row.values["CNN_d"].value, row.values["transformer_d"].value) == pytest.approx((20, 5))
    assert (row.values["clean, CNN_srocc"].value, row.values["clean, transformer_srocc"].value) == (1, -1)
    assert "CNN: x/deep, x/wide; transformer: x/attends." in table.caption
    assert "D %, x/plain" in [column.label for column in tables["by-metric-fixed"].columns]
    components = [{"kind": "metric", "label": name, "architecture": kinds.get(name, "")} for name in metrics]
    assert grouped.architectures(ResultQuery(finished.store, finished.records, components)) == kinds
    assert grouped.architectures(finished.query()) == {}


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    columns = [ColumnSpec(key=key, label="", description="", better=b) for key, b in (("d", "lower"), ("s", "higher"))]
    points = zip([1.0, 2.0, 3.0, 2.0, None], [0.2, 0.5, 0.4, 0.5, 0.9], strict=True)
    values = [{"d": Value(value=d), "s": Value(value=s)} for d, s in points]
    assert parameters.front(values, columns).tolist() == [True, True, False, True, False]


def test_transfer_is_the_mean_change_behind_the_other_defense(study, finished) -> None:
    columns = rows([6.0, 7.0], [5.0, 5.0], name=["i", "j"], defense=["x/b"] * 2, method=["a"] * 2)
    loaded = study(columns)
    transfers = {
        "dataset": ["d"] * 3, "metric": ["m"] * 3, "source": ["x/a"] * 3, "method": ["a"] * 3, "strength": ["weak"] * 3,
        "defense": ["x/a", "x/b", "x/b"], "name": ["i", "i", "j"], "score": [6.0, 7.0, 1.0],
    }  # fmt: skip
    finished.add("transfer", transfers, ("dataset", "metric", "source"))
    (table,) = transfer.tables(finished.query(), loaded)
    assert [c.label for c in table.columns] == ["x/a", "x/b"]
    values = {row.label: [row.values[name] for name in ("x/a", "x/b")] for row in table.rows}
    assert [v.value for v in values["x/a"]] == [10, 30]
    assert values["harness/none"][0].missing == "not attacked"
    assert values["harness/none"][1].value == pytest.approx(15)
    assert table.shading == 30


def test_transfer_between_metrics_counts_the_pairs_that_the_other_metric_reverses(study, finished) -> None:
    """Clean scores are 1, 2, 3, 4; the image with 2 goes past 3 and 4 on m, and past 3 alone on n."""
    names, clean = ["i", "j", "k", "l"], [1.0, 2.0, 3.0, 4.0]
    columns = rows([1.0, 5.0, 3.0, 4.0], clean, name=names, defense=["harness/none"] * 4)
    other = {"metric": ["n"] * 4, "method": ["b"] * 4}
    loaded = study({name: [*values, *other.get(name, values)] for name, values in columns.items()})
    always = {"dataset": "d", "metric": "m", "method": "a", "strength": "weak", "judge": "n"}
    judged = {"name": names, "score": [1.0, 3.5, 3.0, 4.0], **{key: [value] * 4 for key, value in always.items()}}
    finished.add("transfer_metrics", judged, ("dataset", "metric"))
    (table,) = between_metrics.tables(finished.query(), loaded)
    values = {row.label: [row.values[name] for name in ("m", "n")] for row in table.rows}
    assert [v.value for v in values["m"]] == pytest.approx([100 * 2 / 3 / 4, 100 / 3 / 4])


def test_sampling_validity_is_scipys_kruskal_wallis_over_the_draws() -> None:
    rng = np.random.default_rng(0)
    n = 120
    names = np.array([f"i{k:03d}" for k in range(n)])
    features = {"name": names, **{k: rng.normal(size=n) for k in ("si", "cf", "mos")}}
    order = rng.permutation(n)  # the scores stand in another order than the features
    keys = ("source", "attacked", "defended", "score")
    scores = {"name": names[order], **{k: rng.normal(size=n)[order] for k in keys}}
    table = validity("d", features, scores, "", per_cluster=2)
    cluster = clusters_of(np.column_stack([features[k] for k in ("si", "cf", "mos")]))
    draws = disjoint(cluster, 2, 10)
    source_scores = scores["source"][np.argsort(order)]
    first = table.rows[0].values
    drawn = np.concatenate(draws)
    centre = {c: source_scores[drawn][cluster[drawn] == c].mean() for c in set(cluster[drawn])}
    centred = source_scores - np.array([centre.get(c, 0) for c in cluster])
    assert first["p"].value == pytest.approx(kruskal(*(centred[d] for d in draws)).pvalue)
    assert first["mean"].value == pytest.approx(np.mean([source_scores[d].mean() for d in draws]))
    assert first["variance"].value == pytest.approx(np.var([source_scores[d].mean() for d in draws]))
    assert 0.01 < first["p"].value <= 1


def test_the_published_scores_of_draws_are_means_over_the_images_of_each_draw(study) -> None:
    """Six photographs in two draws, two black-box attacks; a white-box one is left out. The range is 10."""
    names = [f"i{k}" for k in range(6)]
    source, mos = [5.0, 6.0, 7.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    attacked = {"a": [6.0, 7.0, 8.0, 6.0, 5.0, 8.0], "b": [7.0, 6.0, 5.0, 4.5, 5.5, 6.5], "white": [9.0] * 6}
    loaded = study(
        rows(
            [score for metric_scores in attacked.values() for score in metric_scores],
            source * 3,
            name=names * 3,
            mos=mos * 3,
            method=[label for label in attacked for _ in names],
            access=["black_box"] * 12 + ["white_box"] * 6,
            ssim=[0.9] * 3 + [0.6] * 3 + [0.8] * 6 + [0.1] * 6,
        )
    )
    subset = loaded.attacked.where(attacker="fixed", type="black-box")
    draws = [np.array([f"d · {name}" for name in draw_names]) for draw_names in (names[:3], names[3:])]
    scores = by_draw(subset.of("x/one"), draws)
    moved = {label: np.abs(np.array(attacked[label]) - source).reshape(2, 3) / 10 for label in "ab"}
    np.testing.assert_allclose(
        scores["d"], np.stack([changes.mean(axis=1) for changes in moved.values()], axis=1), rtol=1e-6
    )
    room = np.maximum(10 - np.array(source), source).reshape(2, 3) / 10
    r = np.stack([np.log10(room / (changes + 1e-6)).mean(axis=1) for changes in moved.values()], axis=1)
    np.testing.assert_allclose(scores["r"], r, rtol=1e-5)
    np.testing.assert_allclose(scores["srocc"], [[1, -1], [0.5, 1]], atol=1e-12)
    np.testing.assert_allclose(scores["ssim"], [[0.9, 0.8], [0.6, 0.8]], rtol=1e-6)


def test_the_published_table_of_draws_has_scipys_test_over_all_tasks(study) -> None:
    rng, n = np.random.default_rng(3), 60
    names = [f"i{k:02d}" for k in range(n)]
    methods = ["a", "b", "c"]
    loaded = study(
        rows(
            rng.uniform(1, 9, 3 * n).tolist(),
            rng.uniform(1, 9, n).tolist() * 3,
            name=names * 3,
            mos=rng.uniform(1, 5, n).tolist() * 3,
            method=[label for label in methods for _ in names],
            access=["black_box"] * (3 * n),
        )
    )
    subset = loaded.attacked.where(attacker="fixed", type="black-box").of("x/one")
    full_names = np.array([f"d · {name}" for name in names])
    features = {"name": full_names, **{k: rng.normal(size=n) for k in ("si", "cf", "mos")}}
    drawn_names, _, draws = drawn(features, set(full_names), 2)
    scores = by_draw(subset, [drawn_names[draw] for draw in draws])
    table = published("d", scores, "")
    values = {row.label: row.values for row in table.rows}
    assert len(draws) == 3
    assert scores["d"].shape == (3, 3)
    assert values["D / 100"]["p"].value == pytest.approx(kruskal(*scores["d"]).pvalue)
    assert values["SROCC"]["mean"].value == pytest.approx(scores["srocc"].mean())
    assert values["R"]["variance"].value == pytest.approx(np.var(scores["r"].mean(axis=1)))
    assert values["SSIM"]["p"].missing
    charts = {chart.id: chart for chart in distributions("d", scores)}
    assert set(charts) == {f"sampling-{key}-d" for key in ("d", "srocc", "r", "ssim")} - {
        f"sampling-{key}-d" for key, column in scores.items() if not column.size
    }
    for draw, line in zip(scores["srocc"], charts["sampling-srocc-d"].series, strict=True):
        at = np.searchsorted(line.x, draw, side="right") - 1
        np.testing.assert_allclose(np.array(line.y)[at], [np.mean(draw <= value) for value in draw])


def test_training_defenses_stand_beside_the_metrics_they_were_tried_on_and_nowhere_else(study) -> None:
    n = 8
    loaded = study(
        rows(
            [9.0, 8.0, 6.0, 9.0, 5.0, 7.0, 5.0, 6.0],
            [5.0] * n,
            defended=[5.0] * 4 + [4.0] * 4,
            defense=["harness/none"] * 4 + ["x/hard"] * 4,
            metric=["m", "m", "other", "other"] + ["m"] * 4,
            adaptive=[False] * 4 + [False, False, True, True],
            name=["i", "j"] * 4,
            mos=[1.0, 2.0] * 4,
        ),
        trained=frozenset({"x/hard"}),
    )
    assert loaded.chosen == ["harness/none"]
    (table,) = trained.tables(loaded)
    by_label = {row.label: row.values for row in table.rows}
    assert list(by_label) == ["harness/none", "x/hard"]
    assert by_label["harness/none"]["fixed_dd"].value == pytest.approx(35)
    assert by_label["harness/none"]["adaptive_dd"].value == pytest.approx(35)
    assert by_label["x/hard"]["fixed_dd"].value == pytest.approx(20)
    assert by_label["x/hard"]["adaptive_dd"].value == pytest.approx(15)
    assert by_label["x/hard"]["adaptive_d"].value == pytest.approx(5)
    compared = {paired.id: paired for paired in overall.comparisons(loaded)}
    assert compared["wins-d-fixed"].entries == ("harness/none", "x/hard")
    assert compared["wins-d-fixed"].families == {"x/hard": "training", "harness/none": "other"}
    facets = {"strength": "weak", "type": "white-box, bounded", "attack": "a", "labels": "of people"}
    assert compared["wins-d-fixed"].conditions[0] == {"dataset": "d", "metric": "m", **facets, "attacker": "fixed"}
    np.testing.assert_allclose(compared["wins-d-fixed"].values[0], [[40, 30], [0, 20]])


def test_without_training_defenses_there_is_no_table_of_them(study) -> None:
    assert trained.tables(study(rows([1.0], [1.0]))) == []


def certificates(finished: Finished, rows: dict[str, list]) -> None:
    """Store certificates of one entry by one metric, with these columns, and the clean scores of four images."""
    n = len(rows["defense"])
    columns = {"dataset": ["d"] * n, "metric": ["m"] * n, "entry": ["x/rs"] * n, "delta": [np.nan] * n, **rows}
    finished.add("certify", columns, ("dataset", "metric", "defense"))
    finished.add("smooth", {"defense": ["x/rs"]}, ("defense",), {"seconds": 2.0})
    images = {
        "dataset": ["d"] * 4,
        "metric": ["m"] * 4,
        "name": list("abcd"),
        "score": [1.0, 3, 6, 8],
        "mos": [1.0, 2, 3, 4],
        "lower": [0.0] * 4,
        "upper": [10.0] * 4,
        "sign": [1] * 4,
        "photograph": list("abcd"),
    }
    finished.add("clean", images, ("dataset", "metric"))


def test_more_classes_move_borders_nearer(finished) -> None:
    columns = {
        "name": list("abcd") * 2,
        "defense": ["x/rs[classes=2]"] * 4 + ["x/rs"] * 4,
        "classes": [2] * 4 + [5] * 4,
        "score": [1.0, 1, 2, 2, 1, 2, 3, 4],
        "radius": [0.3] * 4 + [0.1, 0.1, 0.0, 0.2],
        "abstained": [False] * 6 + [True, False],
        "attacked": [False] * 8,
    }
    certificates(finished, columns)
    main, classes = certified.tables(finished.query(), "")
    assert [row.label for row in main.rows] == ["x/rs"]
    values = main.rows[0].values
    assert (values["abstained"].value, values["abstained"].n, values["seconds"].value) == (25, 4, 2.0)
    assert values["radius"].value == pytest.approx((0.1 + 0.1 + 0.2) / 3)
    assert values["d"].missing == "no result"
    assert values["delta"].missing == "no finite value"
    by_label = {row.label: row.values for row in classes.rows}
    assert list(by_label) == ["x/rs, 2", "x/rs, 5", "x/rs, no classes"]
    assert by_label["x/rs, 2"]["radius"].value == pytest.approx(0.3)
    assert by_label["x/rs, 5"]["radius"].value == pytest.approx(0.1)
    assert by_label["x/rs, 5"]["srocc"].value == by_label["x/rs, no classes"]["srocc"].value == 1
    assert by_label["x/rs, 2"]["srocc"].value == pytest.approx(spearmanr([1, 1, 2, 2], [1, 2, 3, 4]).statistic)


def test_certified_scores_of_attacked_images_are_compared_with_those_of_clean_ones(finished) -> None:
    columns = {
        "name": list("abcd") * 2,
        "defense": ["x/rs"] * 8,
        "classes": [0] * 8,
        "radius": [np.nan] * 8,
        "score": [1.0, 3, 6, 8, 2, 5, 9, 8],
        "delta": [1.0] * 4 + [3.0] * 4,
        "attacked": [False] * 4 + [True] * 4,
        "abstained": [False] * 6 + [True, False],
    }
    certificates(finished, columns)
    (table,) = certified.tables(finished.query(), "")
    values = table.rows[0].values
    assert (values["d"].value, values["d"].n) == (pytest.approx((10 + 20 + 0) / 3), 3)
    assert values["srocc_clean"].value == values["srocc"].value == 1
    assert (values["delta"].value, values["delta"].n) == (pytest.approx((3 * 0.2 + 0.1) / 4), 4)


def test_a_variant_without_a_number_does_not_win_the_parameter_study(study) -> None:
    columns = rows(
        [5.0, 2.0, float("nan"), float("nan")],
        [4.0, 2.0, 4.0, 2.0],
        name=["i0", "i1"] * 2,
        defense=["x/one", "x/one", "x/none", "x/none"],
    )
    (table,) = parameters.tables(study(columns))
    assert [row.label for row in table.rows] == ["x/one", "x/none"]
    assert table.rows[1].values["d"].missing


def test_a_store_without_results_has_no_tables_and_one_of_every_step_has_all_of_them(study, finished) -> None:
    assert not report(finished.query(), 0.05).tables
    study(
        rows(
            [6.0, 7.0] * 2,
            [5.0, 4.0] * 2,
            defense=["harness/none"] * 2 + ["x/one"] * 2,
            name=["i", "j"] * 2,
            mos=[1.0, 2.0] * 2,
        )
    )
    results = report(finished.query(), 0.05)
    table_ids = [
        "ranking",
        "cost",
        "breaks",
        "attacks",
        "metrics",
        "measured",
        "defenses",
        "correlations",
        "references",
        "by-group",
        "parameters",
    ]
    assert [table.id for table in results.tables] == table_ids
    assert all(column.description for table in results.tables for column in table.columns)
    assert [paired.id for paired in results.comparisons] == ["wins-reversed", "wins-d-fixed", "wins-ssim-fixed"]


def test_subsets_are_drawn_of_every_data_set_that_is_large_enough(study, finished) -> None:
    rng, n = np.random.default_rng(1), 40
    score, source, defended, attacked = (rng.uniform(0, 10, n).tolist() for _ in range(4))
    features = {name: rng.uniform(size=n).tolist() for name in ("si", "cf", "mos")}
    names = [f"i{k:02d}" for k in range(n)]
    study(rows(score, source, defended=defended, attacked=attacked, name=names, **features))
    (table,) = studies(finished.query(), 2)
    draws = disjoint(clusters_of(np.column_stack(list(features.values()))), 2, 10)
    for row, scores in zip(table.rows, (source, attacked, defended, score), strict=True):
        assert row.values["mean"].value == pytest.approx(np.mean([np.array(scores)[d].mean() / 10 for d in draws]))
    with pytest.raises(UsageError, match="100 photographs, enough for two draws"):
        studies(finished.query(), 5)


def test_a_strength_that_misses_its_distortion_is_flagged_in_its_row(tmp_path) -> None:
    finished = Finished(tmp_path)
    # Measure, its values of two images, the mean that is shown, its distance from the target in %, and the flag.
    # Targets are 4/255, 0.8 and 30 dB; linf is shown in levels of 255.
    attacks = {
        "x/near": ("linf", [3.5 / 255, 4.2 / 255], 3.85, 3.75, 0),
        "x/half": ("linf", [2 / 255, 2 / 255], 2, 50, 1),
        "x/warp": ("ssim", [0.9999, 0.9999], 0.9999, 99.95, 1),
        "x/colour": ("ssim", [0.83, 0.83], 0.83, 15, 0),
        "x/patch": ("psnr", [16.7, 160.0], 16.7, 44.33, 1),
        "x/idle": ("psnr", [160.0, 160.0], None, None, 1),
    }
    rows = {name: [] for name in ("dataset", "metric", "method", "attack", "strength", "adaptive", "name")}
    rows |= {name: [] for name in ("distortion", "linf", "ssim", "psnr")}
    for label, (kind, numbers, *_) in attacks.items():
        for position, number in enumerate(numbers):
            facts = {"linf": float(number < 160), "ssim": 1.0, "psnr": 40.0, kind: number}
            facts |= {"dataset": "d", "metric": "m", "method": label, "attack": label, "strength": "medium"}
            for name, value in {**facts, "adaptive": False, "name": f"i{position}", "distortion": kind}.items():
                rows[name].append(value)
    finished.add("attack", rows, ("dataset", "metric", "attack"))
    clean = {"dataset": ["d"] * 2, "metric": ["m"] * 2, "name": ["i0", "i1"], "photograph": ["p", "p"]}
    finished.add("clean", clean, ("dataset", "metric"))
    (table,) = distortion.tables(finished.query())
    values_by_label = {row.label.partition(" · ")[0]: row.values for row in table.rows}
    for label, (_, _, achieved, miss, flag) in attacks.items():
        assert values_by_label[label]["flag"].value == flag
        if achieved is None:
            assert values_by_label[label]["achieved"].missing == "no image was changed"
            continue
        assert values_by_label[label]["achieved"].value == pytest.approx(achieved)
        assert values_by_label[label]["miss"].value == pytest.approx(miss, abs=0.01)
    assert values_by_label["x/near"]["achieved"].clusters == 1, "two images of one photograph"
    assert list(values_by_label) == ["x/warp", "x/half", "x/patch", "x/colour", "x/near", "x/idle"]
    assert table.rows[0].facets["measure"] == "SSIM"


def test_results_without_a_measure_of_distortion_give_no_such_table(tmp_path) -> None:
    finished = Finished(tmp_path)
    row = {"dataset": ["d"], "metric": ["m"], "method": ["a"], "attack": ["a"], "strength": ["weak"]}
    finished.add("attack", {**row, "adaptive": [False], "name": ["i"], "linf": [0.1]}, ("dataset", "metric", "attack"))
    assert distortion.tables(finished.query()) == []

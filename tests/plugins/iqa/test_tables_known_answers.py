"""What tables must say of rows whose answer is known beforehand: by a closed form, a simulation, or scipy."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from tests.iqa_rows import Finished, rows

from imharness.cli.commands import component, context
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.leaderboard import chosen_half, mean_interval
from imharness.tracks import Output
from imharness_iqa import certifying
from imharness_iqa.sampling import disjoint, spread_over
from imharness_iqa.tables import certified, grouped, overall, parameters, trained
from imharness_iqa.tables.data import load
from imharness_iqa.tables.formulas import EPS
from imharness_iqa.tables.sampling import over_draws, studies


def by_label(table) -> dict[str, dict]:
    return {row.label: row.values for row in table.rows}


def crossed(scores: dict[str, list[float]], **more) -> dict[str, list]:
    """Return rows of several metrics on the same images; `scores`: metric -> scores."""
    n = len(next(iter(scores.values())))
    names = [f"i{k:02d}" for _ in scores for k in range(n)]
    facts = {
        "metric": [metric for metric in scores for _ in range(n)],
        "name": names,
        "mos": [float(k) for _ in scores for k in range(n)],
        **{name: [per_metric[metric] for metric in scores for _ in range(n)] for name, per_metric in more.items()},
    }
    return rows([s for values in scores.values() for s in values], [5.0] * len(names), **facts)


def test_an_abstention_costs_its_image_and_not_the_condition(study) -> None:
    up = [float(k) for k in range(10)]
    down = [np.nan, *(9.0 - k for k in range(1, 10))]
    loaded = study(crossed({"up": up, "down": down}))
    value = loaded.attacked.correlation(resampled=True)
    assert (value.value, value.n) == (pytest.approx(0), 10)
    counts = by_label(overall.tables(loaded)[1])["x/one"]
    assert counts["fixed_conditions"].value == 2
    assert counts["fixed_images"].value == pytest.approx(9.5)


def test_correlations_are_scipys_over_the_images_that_each_condition_has(study) -> None:
    rng = np.random.default_rng(0)
    scores = {f"m{k}": rng.integers(0, 6, 12).astype(float) for k in range(5)}
    for values in scores.values():
        values[rng.permutation(12)[:4]] = np.nan
    scores["m5"] = np.array([1.0, 2.0] + [np.nan] * 10)
    subset = study(crossed({metric: condition_scores.tolist() for metric, condition_scores in scores.items()})).attacked
    for method, theirs in (("spearman", spearmanr), ("pearson", pearsonr)):
        each = []
        for values in scores.values():
            finite = np.isfinite(values)
            if finite.sum() > 2:
                each.append(theirs(values[finite], np.arange(12)[finite]).statistic)
        for resampled in {False, method == "spearman"}:
            assert subset.correlation(method, resampled=resampled).value == pytest.approx(np.mean(each))


def test_metrics_that_all_abstain_somewhere_still_have_a_correlation(study) -> None:
    scores = {f"m{k}": [np.nan if i == k else float(i) for i in range(6)] for k in range(6)}
    assert study(crossed(scores)).attacked.correlation().value == pytest.approx(1)


@pytest.mark.parametrize("method", ["spearman", "pearson"])
def test_a_metric_equal_to_the_label_correlates_perfectly_whatever_its_direction(study, method: str) -> None:
    up = [float(k) for k in range(8)]
    loaded = study(crossed({"up": up, "down": [10 - s for s in up]}, sign={"up": 1, "down": -1}))
    assert loaded.attacked.correlation(method).value == pytest.approx(1)
    assert loaded.attacked.correlation(resampled=True).value == pytest.approx(1)


def test_the_front_knows_that_a_lower_score_may_be_better(study) -> None:
    right, wrong = [8.0, 6.0, 4.0, 2.0], [2.0, 4.0, 6.0, 8.0]
    names = [f"i{k}" for k in range(4)] * 2
    loaded = study(
        rows(
            right + wrong,
            [5.0] * 8,
            name=names,
            mos=[1.0, 2, 3, 4] * 2,
            sign=[-1] * 8,
            defense=["x/right"] * 4 + ["x/wrong"] * 4,
        )
    )
    (table,) = parameters.tables(loaded)
    assert {label: values["front"].value for label, values in by_label(table).items()} == {"x/right": 1, "x/wrong": 0}


def certificates(finished: Finished, columns: dict[str, list], clean: list[float], photographs: list[str]) -> None:
    """Store certificates of one entry, with these columns, and the clean scores of its images by each metric."""
    n, names = len(columns["defense"]), [f"i{k:03d}" for k in range(len(clean))]
    finished.add(
        "certify",
        {
            "dataset": ["d"] * n,
            "entry": ["x/rs"] * n,
            "classes": [0] * n,
            "delta": [np.nan] * n,
            "radius": [0.1] * n,
            "abstained": [False] * n,
            **columns,
        },
        ("dataset", "metric", "defense"),
    )
    finished.add("smooth", {"defense": ["x/rs"]}, ("defense",), {"seconds": 2.0})
    for metric in sorted(set(columns["metric"])):
        k = len(names)
        images = {
            "dataset": ["d"] * k,
            "metric": [metric] * k,
            "name": names,
            "score": clean,
            "mos": clean,
            "lower": [0.0] * k,
            "upper": [10.0] * k,
            "sign": [1] * k,
            "photograph": photographs,
            "proxy": [""] * k,
            "labelled": [""] * k,
        }
        finished.add("clean", images, ("dataset", "metric"))


def test_a_perfect_certified_defense_does_not_move_at_all(finished) -> None:
    """The centre of a class differs from the score by up to half a class: that is no fault of the defense."""
    clean = np.random.default_rng(0).uniform(0, 10, 200).tolist()
    centres = [np.floor(s) + 0.5 for s in clean]
    names = [f"i{k:03d}" for k in range(200)]
    certificates(
        finished,
        {
            "name": names * 2,
            "metric": ["m"] * 400,
            "defense": ["x/rs"] * 400,
            "score": centres * 2,
            "attacked": [False] * 200 + [True] * 200,
        },
        clean,
        names,
    )
    values = by_label(certified.tables(finished.query(), "")[0])["x/rs"]
    room = np.maximum(10 - np.array(centres), centres) / 10
    assert values["d"].value == 0
    assert values["r"].value == pytest.approx(np.mean(np.log10(room / EPS)))
    assert values["ties"].value == 100
    assert values["r_without_ties"].missing


def test_a_pair_without_a_promise_for_either_image_is_left_out(finished) -> None:
    names = [f"i{k:03d}" for k in range(3)]
    certificates(
        finished,
        {
            "name": names * 2,
            "metric": ["m"] * 6,
            "defense": ["x/rs"] * 6,
            "score": [1.0, 2, 3, 3, 9, 3],
            "attacked": [False] * 3 + [True] * 3,
            "abstained": [False, True, False, False, False, False],
        },
        [1.0, 2, 3],
        names,
    )
    values = by_label(certified.tables(finished.query(), "")[0])["x/rs"]
    assert (values["d"].value, values["d"].n) == (pytest.approx((20 + 0) / 2), 2)


def test_each_image_has_one_radius_however_many_conditions_it_was_seen_in(finished) -> None:
    names, metrics = [f"i{k:03d}" for k in range(10)], [f"m{k}" for k in range(6)]
    radii = np.random.default_rng(1).uniform(0, 0.3, 10)
    columns = {
        "name": names * 6,
        "metric": [m for m in metrics for _ in names],
        "defense": ["x/rs"] * 60,
        "score": list(range(10)) * 6,
        "radius": radii.tolist() * 6,
        "delta": (10 * radii).tolist() * 6,
        "attacked": [False] * 60,
    }
    certificates(finished, columns, [float(k) for k in range(10)], names)
    values = by_label(certified.tables(finished.query(), "")[0])["x/rs"]
    expected = mean_interval(radii, names)
    for measure in ("radius", "delta"):
        value = values[measure]
        assert (value.value, value.n, value.clusters) == (pytest.approx(radii.mean()), 10, 10)
        assert (value.low, value.high) == pytest.approx((expected.low, expected.high))
    assert (values["abstained"].value, values["abstained"].n) == (0, 10)


def test_fixed_and_adaptive_attacks_are_compared_under_the_same_conditions(study) -> None:
    """The fixed attack `weak` does nothing and never went through the defense: it must not flatter the fixed half.

    Attacks on the undefended metric know all that there is to know, and count as adaptive ones, too.
    """
    n, names = 12, ["i", "j", "k"]
    loaded = study(
        rows(
            [8.0] * 3 + [5.0] * 3 + [8.0] * 3 + [9.0] * 3,
            [5.0] * n,
            method=["hard"] * 3 + ["weak"] * 3 + ["hard"] * 6,
            adaptive=[False] * 6 + [True] * 3 + [False] * 3,
            name=names * 4,
            mos=[1.0, 2, 3] * 4,
            defense=["x/one"] * 9 + ["harness/none"] * 3,
        )
    )
    labelled = by_label(overall.tables(loaded)[0])
    values = labelled["x/one"]
    assert values["fixed_d"].value == pytest.approx(15)
    assert values["common_d"].value == values["adaptive_d"].value == pytest.approx(30)
    assert [labelled["harness/none"][f"{kind}_d"].value for kind in ("fixed", "adaptive", "common")] == [40] * 3


def test_the_choice_of_a_parameter_does_not_flatter_what_is_reported(study) -> None:
    """Of forty equal variants, the chosen one has the D of all of them on the half that did not choose it."""
    rng, variants, images = np.random.default_rng(3), 40, 60
    names = [f"i{k:02d}" for k in range(images)]
    labels = ["x/jpeg", *(f"x/jpeg[q={k}]" for k in range(1, variants))]
    moved = rng.normal(3, 1, (variants, images))
    columns = rows(
        (5 + moved).ravel().tolist(),
        [5.0] * moved.size,
        name=names * variants,
        defense=[label for label in labels for _ in names],
    )
    loaded = study(columns, entries=dict.fromkeys(labels, "x/jpeg"))
    chosen = chosen_half([f"d · {name}" for name in names])
    best = int(moved[:, chosen].mean(axis=1).argmin())
    assert loaded.chosen == [labels[best]]
    value = by_label(overall.tables(loaded)[0])[labels[best]]["fixed_d"]
    assert value.value == pytest.approx(10 * moved[best, ~chosen].mean())
    assert value.n == (~chosen).sum()
    assert value.low <= 30 <= value.high


def test_nothing_is_held_back_where_nothing_is_chosen(study) -> None:
    loaded = study(rows([6.0, 7.0, 8.0], [5.0] * 3))
    assert by_label(overall.tables(loaded)[0])["x/one"]["fixed_d"].n == 3


def test_variants_are_compared_under_the_conditions_that_all_of_them_have(study) -> None:
    names = [f"i{k}" for k in range(12)]
    scores = [9.0] * 12 + [6.0] * 12 + [8.0] * 12
    loaded = study(
        rows(
            scores,
            [5.0] * 36,
            name=names * 3,
            method=["hard"] * 12 + ["mild"] * 12 + ["hard"] * 12,
            defense=["x/a"] * 24 + ["x/a[q=1]"] * 12,
        ),
        entries={"x/a": "x/a", "x/a[q=1]": "x/a"},
    )
    assert loaded.chosen == ["x/a[q=1]"]


def test_a_defense_stands_with_a_variant_that_both_attackers_met(study) -> None:
    """The better variant under fixed attacks, which nobody attacked who knows it, leaves the other columns empty."""
    names = [f"i{k}" for k in range(12)]
    loaded = study(
        rows(
            [9.0] * 12 + [6.0] * 12 + [8.0] * 12,
            [5.0] * 36,
            name=names * 3,
            adaptive=[False] * 24 + [True] * 12,
            defense=["x/a"] * 12 + ["x/a[q=1]"] * 12 + ["x/a"] * 12,
        ),
        entries={"x/a": "x/a", "x/a[q=1]": "x/a"},
    )
    assert loaded.chosen == ["x/a"]
    assert by_label(overall.tables(loaded)[0])["x/a"]["adaptive_d"].value == pytest.approx(30)


ENTRIES = {"x/a": "x/a", "x/a[q=1]": "x/a"}


def two_variants(study, names: list[str], datasets: list[str]):
    """Return a study in which q=1 is the better variant of the one defense."""
    n = len(names)
    return study(
        rows(
            [9.0] * n + [8.0] * n,
            [5.0] * 2 * n,
            name=names * 2,
            dataset=datasets * 2,
            defense=["x/a"] * n + ["x/a[q=1]"] * n,
        ),
        entries=ENTRIES,
    )


def test_too_few_photographs_for_both_halves_choose_nothing_and_report_all(study) -> None:
    loaded = two_variants(study, [f"i{k}" for k in range(9)], ["d"] * 9)
    assert loaded.chosen == ["x/a"], "the default values"
    assert loaded.reported.where(attacker="fixed").mean("d").n == 9


def test_a_track_may_ask_for_more_photographs_before_variants_are_chosen(study, finished) -> None:
    assert two_variants(study, [f"i{k}" for k in range(12)], ["d"] * 12).chosen == ["x/a[q=1]"]
    loaded = load(finished.query(), 13)
    assert loaded.chosen == ["x/a"]
    assert loaded.reported.where(attacker="fixed").mean("d").n == 12


def test_a_small_data_set_keeps_photographs_on_both_halves(study) -> None:
    loaded = two_variants(study, [f"i{k}" for k in range(14)], ["large"] * 12 + ["small"] * 2)
    assert loaded.chosen == ["x/a[q=1]"]
    reported = loaded.reported.where(attacker="fixed").of("x/a[q=1]")
    assert {condition["dataset"] for condition in reported.blocks.conditions} == {"large", "small"}
    assert reported.mean("d").n == 7


def test_variants_without_a_common_condition_hold_nothing_back(study) -> None:
    names = [f"i{k}" for k in range(12)]
    loaded = study(
        rows(
            [9.0] * 12 + [8.0] * 12,
            [5.0] * 24,
            name=names * 2,
            method=["hard"] * 12 + ["mild"] * 12,
            defense=["x/a"] * 12 + ["x/a[q=1]"] * 12,
        ),
        entries=ENTRIES,
    )
    assert loaded.reported.where(attacker="fixed").mean("d").n == 12


def test_photographs_of_a_data_set_are_the_same_however_it_is_cut(study) -> None:
    names = [f"i{k}" for k in range(6)]
    cut = ["k[size=96]"] * 6 + ["k[severities=(2, 4),size=96]"] * 6
    loaded = study(rows([6.0] * 12, [5.0] * 12, name=names * 2, dataset=cut))
    assert loaded.attacked.mean("d").clusters == 6


def test_a_line_without_a_correlation_is_not_resampled_into_one(study) -> None:
    """Ten images that a metric orders as people do, and a second condition with two images, which defines nothing."""
    names, score = [f"i{k}" for k in range(10)], [float(k) for k in range(10)]
    columns = rows(
        [*score, 3.0, 2.0], [5.0] * 12, name=[*names, "i0", "i1"], mos=[*score, 0.0, 1.0], method=["a"] * 10 + ["b"] * 2
    )
    correlation = study(columns).attacked.correlation(resampled=True)
    assert (correlation.value, correlation.n) == (1.0, 10)
    assert correlation.low is None, "all resamples give 1: an interval of no width would claim certainty"


def test_a_constant_metric_has_no_linear_correlation(study) -> None:
    correlation = study(rows([0.1] * 7, [5.0] * 7)).attacked.correlation("pearson")
    assert correlation.value is None


def test_images_of_one_photograph_are_resampled_together(study) -> None:
    rng = np.random.default_rng(2)
    photographs = [f"p{k // 9}" for k in range(54)]
    moved = np.repeat(rng.normal(3, 1, 6), 9) + rng.normal(0, 0.1, 54)
    names = [f"i{k:02d}" for k in range(54)]
    loaded = study(rows((5 + moved).tolist(), [5.0] * 54, name=names, photograph=photographs))
    value, expected = loaded.attacked.mean("d"), mean_interval(10 * moved, photographs)
    assert (value.n, value.clusters) == (54, 6)
    assert (value.low, value.high) == pytest.approx((expected.low, expected.high))
    assert value.high - value.low > 2 * (lambda i: i.high - i.low)(mean_interval(10 * moved))
    rho = loaded.attacked.correlation(resampled=True)
    assert (rho.n, rho.clusters) == (54, 6)


def test_the_same_photograph_in_a_subset_for_slow_attacks_is_no_second_one(study) -> None:
    names = [f"i{k}" for k in range(6)]
    columns = rows(
        [6.0, 7, 8, 9, 6, 7, 8, 9, 6],
        [5.0] * 9,
        name=names + names[:3],
        mos=[1.0, 2, 3, 4, 5, 6, 1, 2, 3],
        dataset=["k[per_cluster=9,split=test]"] * 6 + ["k[per_cluster=5,split=test]"] * 3,
    )
    subset = study(columns).attacked
    assert subset.mean("d").n == 6
    assert subset.mean("d").value == pytest.approx(np.mean([25.0, 25.0, 20.0, 40.0, 10.0, 20.0]))
    assert subset.correlation(resampled=True).n == 6


def test_clean_scores_of_before_are_asked_for_again(finished) -> None:
    finished.add("clean", {"dataset": ["d"], "metric": ["m"], "name": ["i"], "score": [1.0]}, ("dataset", "metric"))
    with pytest.raises(UsageError, match="which photograph an image is made of: `harness run` them again"):
        studies(finished.query(), 5)


def test_identical_images_have_no_psnr_and_are_counted(study) -> None:
    loaded = study(rows([6.0, 7.0, 8.0], [5.0] * 3, psnr=[160.0, 30.0, 20.0], mse=[0.0, 0.001, 0.01], mos=[1.0, 2, 3]))
    values = by_label(overall.tables(loaded)[0])["x/one"]
    assert (values["fixed_psnr"].value, values["fixed_psnr"].n) == (25, 2)
    assert values["fixed_identical"].value == pytest.approx(100 / 3)


def over_random_scores(seed: int, effect: float) -> dict:
    """Return the row of random scores over disjoint draws of five images from each cluster; none moves the scores.

    Scores of neighbouring clusters differ by `effect`.
    """
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 10, 300)
    draws = disjoint(cluster, 5, 10)
    return over_draws(rng.normal(size=300) + effect * cluster, cluster, draws)


@pytest.mark.parametrize("effect", [0.0, 3.0])
def test_the_test_of_the_draws_rejects_as_often_as_it_says(effect: float) -> None:
    """Where clusters differ, too: draws with equal shares of each cluster are more alike than draws by chance."""
    p = np.array([over_random_scores(seed, effect)["p"].value for seed in range(600)])
    assert 0.03 <= np.mean(p < 0.05) <= 0.07


def test_a_draw_that_moves_the_scores_is_found() -> None:
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 10, 300)
    draws = disjoint(cluster, 5, 10)
    scores = rng.normal(size=300)
    scores[draws[0]] += 1
    assert over_draws(scores, cluster, draws)["p"].value < 0.001


def test_another_draw_stays_within_the_bound_that_is_stated() -> None:
    inside, rng = [], np.random.default_rng(0)
    for _ in range(600):
        cluster = np.repeat(np.arange(10), 36)
        *draws, another = disjoint(cluster, 6, 6)
        scores = rng.normal(size=360)
        estimates = over_draws(scores, cluster, draws)
        inside.append(abs(scores[another].mean() - estimates["mean"].value) <= estimates["bound"].value)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_disjoint_draws_share_no_image_and_have_equal_shares_of_each_cluster() -> None:
    cluster = np.array([0] * 30 + [1] * 25 + [2] * 5)
    draws = disjoint(cluster, 5, 10)
    assert len(draws) == 4
    assert len(np.unique(np.concatenate(draws))) == sum(map(len, draws))
    assert [np.bincount(cluster[draw], minlength=3).tolist() for draw in draws] == [[5, 5, 1]] * 4


def test_images_of_one_photograph_are_drawn_as_one(study, finished) -> None:
    rng, n = np.random.default_rng(0), 120
    features = {key: rng.uniform(size=n).tolist() for key in ("si", "cf")}
    study(rows(rng.uniform(0, 10, n).tolist(), [5.0] * n, photograph=[f"p{k // 2:02d}" for k in range(n)], **features))
    with pytest.raises(UsageError, match="80 photographs"):
        studies(finished.query(), 4)
    estimate = by_label(studies(finished.query(), 2)[0])["f(D(x'))"]["p"]
    assert estimate.value is not None, estimate.missing
    assert 30 < estimate.n <= 60


def test_certified_defenses_see_equally_many_images_of_every_photograph() -> None:
    data = installed().one("dataset", "severity-ladder[severities=[2,4],size=32]").build(torch.device("cpu"))
    places = spread_over(data.columns["photograph"], data.names, 10)
    subset = data.at(places)
    assert sorted(np.unique(subset.columns["photograph"], return_counts=True)[1].tolist()) == [1] * 8 + [2]
    assert len(set(subset.names)) == 10
    torch.testing.assert_close(subset.load([3, 4]), data.load(places[3:5]))
    assert spread_over(data.columns["photograph"], data.names, 99) == list(range(81))
    backwards = spread_over(data.columns["photograph"][::-1], data.names[::-1], 10)
    assert sorted(80 - index for index in backwards) == places


def test_certificates_belong_to_the_images_that_were_drawn() -> None:
    """The noisy pass of an attacked image reads the pixels of that image."""
    roles = {
        "dataset": component("dataset", "severity-ladder[severities=[2,4],size=32]"),
        "metric": component("metric", "embedded-cnn"),
        "defense": component("defense", "ms").with_parameters(selection=1, samples=60, sigma=0.001, epsilon=0.0001),
    }
    images = context(roles, limit=None).images()
    stack = images.load(list(range(len(images)))).mul(255).round().byte().numpy()
    attacked = Output({}, {"images-32x32": stack[::-1].copy()})
    options = {"images": 5, "attacked": True}
    passed = certifying.smooth(context(roles, limit=None, options=options, needs={"attacked": attacked}))
    noisy = Output({}, passed.arrays)
    rows = certifying.certify(context(roles, limit=None, options=options, needs={"noisy": noisy})).rows
    score = roles["metric"].build(torch.device("cpu"))
    places = [len(images) - 1 - images.names.index(name) for name in rows["name"]]
    with torch.no_grad():
        expected = score(images.load(places)).numpy()
    np.testing.assert_allclose(rows["score"], expected, atol=0.02)


def test_scores_of_metrics_that_point_opposite_ways_do_not_cancel_in_a_draw(study, finished) -> None:
    n = 60
    rng = np.random.default_rng(1)
    up = rng.uniform(0, 10, n)
    columns = crossed({"up": up.tolist(), "down": (10 - up).tolist()}, sign={"up": 1, "down": -1})
    columns |= {key: rng.uniform(size=n).tolist() * 2 for key in ("si", "cf")}
    study(columns)
    (table,) = studies(finished.query(), 2)
    assert by_label(table)["f(D(x'))"]["variance"].value > 1e-5


def test_trained_metrics_compare_under_the_same_conditions_too(study) -> None:
    names, attacks = ["i", "j", "k"], ["hard"] * 3 + ["weak"] * 3 + ["hard"] * 3
    loaded = study(
        rows(
            [8.0] * 3 + [5.0] * 3 + [8.0] * 3 + [9.0] * 3,
            [5.0] * 12,
            method=[*attacks, *["hard"] * 3],
            adaptive=[False] * 6 + [True] * 3 + [False] * 3,
            name=names * 4,
            mos=[1.0, 2, 3] * 4,
            defense=["x/hard"] * 9 + ["harness/none"] * 3,
        ),
        trained=frozenset({"x/hard"}),
    )
    (table,) = trained.tables(loaded)
    values = by_label(table)["x/hard"]
    assert values["fixed_d"].value == pytest.approx(15)
    assert values["common_d"].value == values["common_dd"].value == pytest.approx(30)


def test_tables_of_adaptive_attacks_show_what_the_same_attacks_do_that_do_not_know_the_defense(study) -> None:
    attacks = ["hard"] * 3 + ["weak"] * 3 + ["hard"] * 3
    loaded = study(
        rows(
            [8.0] * 3 + [5.0] * 3 + [9.0] * 3,
            [5.0] * 9,
            method=attacks,
            adaptive=[False] * 6 + [True] * 3,
            name=["i", "j", "k"] * 3,
            mos=[1.0, 2, 3] * 3,
            metric=["m"] * 9,
            norm=["linf"] * 3 + ["unrestricted"] * 3 + ["linf"] * 3,
        )
    )
    table = next(t for t in grouped.tables(loaded) if t.id == "by-type-adaptive")
    labels = {c.label: c.key for c in table.columns}
    values = by_label(table)["x/one"]
    assert values[labels["D %, white-box, bounded"]].value == pytest.approx(40)
    assert values[labels["D %, fixed, white-box, bounded"]].value == pytest.approx(30)

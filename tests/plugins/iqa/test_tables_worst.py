"""The ranking by the worst attack on each image, and what stands beside it, against numbers worked out by hand."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.iqa_rows import Finished, reversed_shares, rows, written

from imharness.results.query import ResultQuery
from imharness_iqa.folders import NO_LABELS
from imharness_iqa.tables import cost, report, worst

NONE = "harness/none"


def by_label(table) -> dict[str, dict]:
    return {row.label: row.values for row in table.rows}


def attacked(scores: dict[tuple[str, str, str, bool], list[float]], clean: dict[str, list[float]], **more) -> dict:
    """Return rows of one metric.

    `scores`: (defense, attack, strength, adaptive) -> score of each attacked image behind the defense.
    `clean`: defense -> score of each clean image behind it.
    """
    n = len(next(iter(scores.values())))
    lines = [(*key, i, number) for key, values in scores.items() for i, number in enumerate(values)]
    columns = {
        "defense": [line[0] for line in lines],
        "method": [line[1] for line in lines],
        "strength": [line[2] for line in lines],
        "adaptive": [line[3] for line in lines],
        "name": [f"i{line[4]}" for line in lines],
        "mos": [float(line[4]) for line in lines],
        "defended": [clean[line[0]][line[4]] for line in lines],
    }
    assert n == len(clean[NONE])
    return rows([line[5] for line in lines], [clean[NONE][line[4]] for line in lines], **{**columns, **more})


def test_of_each_image_the_worst_attack_strength_and_attacker_counts(finished: Finished) -> None:
    """Scores from 0 to 10, so that a change of 1 is 10% of the range; of a second metric every image rises by 1."""
    clean = {NONE: [1.0, 2.0, 3.0, 5.0], "x/one": [1.0, 3.0, 4.0, 8.0]}
    scores = {
        (NONE, "a", "weak", False): [2.5, 4.0, 3.0, 5.0],
        (NONE, "a", "strong", False): [4.0, 3.5, 3.0, 1.5],
        ("x/one", "a", "weak", False): [1.5, 3.0, 4.5, 8.5],
        ("x/one", "a", "strong", False): [1.0, 4.0, 4.0, 9.0],
        ("x/one", "a", "weak", True): [3.5, 3.5, 8.5, 8.0],
        ("x/one", "a", "strong", True): [0.0, 3.0, 2.0, 3.5],
    }
    columns = attacked(scores, clean)
    other = {**columns, "metric": ["other"] * len(columns["name"]), "score": [s + 1 for s in columns["defended"]]}
    written(finished, {name: columns[name] + other[name] for name in columns})
    result = report(finished.query(), 0.05)
    assert [table.id for table in result.tables][:2] == ["ranking", "cost"]
    values, beside = by_label(result.tables[0]), by_label(result.tables[1])
    ways = {key: reversed_shares(clean[key[0]], values) for key, values in scores.items()}
    raised = {label: np.array(reversed_shares(values, [s + 1 for s in values])) for label, values in clean.items()}
    assert ways["x/one", "a", "weak", True] == pytest.approx([100 / 3, 0, 100 / 3, 0])
    assert raised[NONE].tolist() == pytest.approx([100 / 3, 100 / 3, 0, 0]), "what becomes equal has changed its order"
    for label in clean:
        worst_of_each = np.max([shares for key, shares in ways.items() if key[0] == label], axis=0)
        assert values[label]["worst"].value == pytest.approx(np.mean([worst_of_each, raised[label]]))
        largest_change = np.max(
            [np.abs(np.subtract(values, clean[label])) for key, values in scores.items() if key[0] == label], axis=0
        )
        assert beside[label]["dd_worst"].value == pytest.approx(10 * np.mean([largest_change, np.ones(4)]))
        spread = np.subtract(*np.quantile(clean[label], (0.75, 0.25)))
        assert beside[label]["shift"].value == pytest.approx(np.mean([largest_change, np.ones(4)]) / spread)
    unaware, aware = (
        np.mean([shares for key, shares in ways.items() if key[0] == "x/one" and key[3] == knows], axis=0)
        for knows in (False, True)
    )
    both = [raised["x/one"]] * 2
    assert values["x/one"]["unaware"].value == pytest.approx(np.mean([unaware, unaware, *both]))
    assert values["x/one"]["aware"].value == pytest.approx(np.mean([aware, aware, *both]))
    assert values["x/one"]["coverage"].value == 100
    assert result.rankings[0].over == ("attack", "attacker", "strength", "type")
    assert result.rankings[0].places["x/one"].broken_by == {"a": 1.0}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_d_counts_movement_in_either_direction_and_gain_only_what_the_attack_asks_for(
    sign: float, finished: Finished
) -> None:
    """Range 10: the first image moves by 40% to worse quality under one attack, and gains 10% under the other."""
    clean = {NONE: [5.0, 5.0], "x/one": [5.0, 6.0]}
    scores = {
        (NONE, "a", "weak", False): [5.0 + sign, 5.0 + 2 * sign],
        ("x/one", "a", "weak", False): [5.0 - 4 * sign, 6.0 + 3 * sign],
        ("x/one", "b", "weak", False): [5.0 + sign, 6.0 - sign],
        (NONE, "b", "weak", False): [5.0, 5.0],
    }
    columns = attacked(scores, clean)
    study = written(finished, {**columns, "sign": [sign] * len(columns["name"])})
    query = finished.query()
    (table,) = cost.tables(query, worst.Worst(study, worst.rules(query, study, 0.05)))
    values_by_label = by_label(table)
    assert values_by_label["x/one"]["dd_worst"].value == pytest.approx((40 + 30) / 2)
    assert values_by_label["x/one"]["gain"].value == pytest.approx((10 + 30) / 2)
    assert (
        values_by_label[NONE]["gain"].value == values_by_label[NONE]["dd_worst"].value == pytest.approx((10 + 20) / 2)
    )


def test_an_attack_that_only_moves_scores_to_worse_quality_gains_less_than_nothing(finished: Finished) -> None:
    study = written(finished, attacked({(NONE, "a", "weak", False): [4.0, 5.0]}, {NONE: [5.0, 5.5]}))
    (table,) = cost.tables(finished.query(), worst.Worst(study, worst.rules(finished.query(), study, 0.05)))
    assert by_label(table)[NONE]["gain"].value == pytest.approx(-(10 + 5) / 2)


def test_a_subset_for_slow_attacks_is_the_same_data_set(finished: Finished) -> None:
    clean = {NONE: [1.0, 2.0, 3.0]}
    columns = attacked({(NONE, "a", "weak", False): [2.0, 3.0, 4.0]}, clean, dataset=["k[per_cluster=9]"] * 3)
    slow = attacked({(NONE, "b", "weak", False): [4.0, 2.0, 3.0]}, clean, dataset=["k[per_cluster=1]"] * 3)
    study = written(finished, {name: columns[name] + slow[name] for name in columns})
    worst_case = worst.Worst(study, worst.rules(finished.query(), study, 0.05))
    assert worst_case.part.by_image("dd")[0].tolist() == pytest.approx([30, 10, 10])
    assert worst_case.part.blocks.conditions == ({"dataset": "k", "metric": "m"},)
    np.testing.assert_allclose(worst_case.rules.worst[:1], [[-100, -50, 0]])


def test_what_the_worst_attack_leaves_is_correlated_with_the_labels(finished: Finished) -> None:
    rng = np.random.default_rng(0)
    clean = rng.uniform(3, 7, 12)
    ways = clean + rng.normal(0, 2, (3, 12))
    scores = {(NONE, f"a{k}", "weak", False): way.tolist() for k, way in enumerate(ways)}
    study = written(finished, attacked(scores, {NONE: clean.tolist()}))
    (table,) = cost.tables(finished.query(), worst.Worst(study, worst.rules(finished.query(), study, 0.05)))
    remaining = ways[np.abs(ways - clean).argmax(axis=0), np.arange(12)]
    values = by_label(table)[NONE]
    assert values["srocc"].value == pytest.approx(spearmanr(remaining, np.arange(12)).statistic)
    assert values["srocc"].low is not None
    low, high = np.vstack([clean, ways]).min(axis=0), np.vstack([clean, ways]).max(axis=0)
    pairs = [(i, j) for i in range(12) for j in range(12) if clean[i] > clean[j]]
    assert values["both"].value == pytest.approx(100 * np.mean([low[i] < high[j] for i, j in pairs]))


@pytest.mark.parametrize("decimals", [0, 1, 6])
def test_the_share_of_pairs_that_can_be_turned_is_that_of_counting_them(decimals: int) -> None:
    """With few decimals many scores are equal, clean ones and ends alike."""
    rng = np.random.default_rng(decimals)
    clean = rng.uniform(0, 4, 60).round(decimals)
    low = clean - rng.exponential(0.3, 60).round(decimals)
    high = clean + rng.exponential(0.3, 60).round(decimals)
    clean[::17] = np.nan
    shares = worst.reversed_shares(clean, low, high)
    for i in range(60):
        others = [j for j in range(60) if np.isfinite(clean[[i, j]]).all() and clean[j] != clean[i]]
        turns = [low[max(i, j, key=lambda k: clean[k])] < high[min(i, j, key=lambda k: clean[k])] for j in others]
        assert shares[i] == pytest.approx(np.mean(turns)) if others else np.isnan(shares[i])
    assert (worst.reversed_shares(clean, clean, clean)[np.isfinite(clean)] == 0).all()
    assert np.isnan(worst.reversed_shares(np.ones(3), np.zeros(3), np.ones(3))).all()


def test_the_interval_of_the_turned_pairs_covers_the_truth_as_often_as_it_says(finished: Finished) -> None:
    """Scores are uniform in [0, 10], and an attack raises them by 1: 19 of 100 pairs differ by less, and can turn.

    Each of 60 entries has scores of its own, so that each row of the table is a study by itself.
    """
    entries = [NONE, *(f"x/{seed}" for seed in range(1, 60))]
    clean = {entry: np.random.default_rng(seed).uniform(0, 10, 40) for seed, entry in enumerate(entries)}
    scores = {(entry, "a", "weak", False): (clean_values + 1).tolist() for entry, clean_values in clean.items()}
    study = written(finished, attacked(scores, {entry: values.tolist() for entry, values in clean.items()}))
    query = finished.query()
    (table,) = cost.tables(query, worst.Worst(study, worst.rules(query, study, 0.05)))
    shares = [values["both"] for values in by_label(table).values()]
    assert len(shares) == 60
    assert np.mean([value.low <= 19 <= value.high for value in shares]) >= 0.95 - 2 * (0.95 * 0.05 / 60) ** 0.5


def test_what_a_defense_leaves_of_clean_images_is_shown(finished: Finished) -> None:
    clean = {NONE: [1.0, 2.0], "x/one": [1.0, 2.0], "x/hard": [1.0, 2.0]}
    scores = {(label, "a", "weak", False): [2.0, 3.0] for label in clean}
    study = written(finished, attacked(scores, clean), trained=frozenset({"x/hard"}), times={"x/one": 2.5})
    purified = {
        "dataset": ["d"] * 4,
        "defense": [NONE] * 2 + ["x/one"] * 2,
        "name": ["i0", "i1"] * 2,
        "entry": [NONE] * 2 + ["x/one"] * 2,
        "group": ["none"] * 2 + ["other"] * 2,
        "psnr": [160.0, 160.0, 160.0, 20.0],
        "ssim": [1.0, 1.0, 1.0, 0.5],
        "psnr_undone": [160.0, 160.0, 160.0, 40.0],
        "ssim_undone": [1.0, 1.0, 1.0, 0.9],
    }
    finished.records = [record for record in finished.records if record.spec.step != "purify"]
    finished.add("purify", purified, ("dataset", "defense"), {"ms": 2.5})
    (table,) = cost.tables(finished.query(), worst.Worst(study, worst.rules(finished.query(), study, 0.05)))
    values_by_label = by_label(table)
    assert [column.key for column in table.columns][-5:] == ["psnr", "ssim", "psnr_undone", "ssim_undone", "ms"]
    assert (values_by_label["x/one"]["psnr"].value, values_by_label["x/one"]["psnr"].n) == (20, 1)
    assert values_by_label["x/one"]["ssim"].value == 0.75
    assert (
        values_by_label["x/one"]["psnr_undone"].value,
        values_by_label["x/one"]["ssim_undone"].value,
    ) == pytest.approx((40, 0.95))
    assert values_by_label["x/one"]["ms"].value == 2.5
    assert (
        values_by_label[NONE]["psnr"].missing == values_by_label["x/hard"]["ssim"].missing == "does not change images"
    )


def test_a_training_defense_is_ranked_with_the_purifications_on_what_it_has(finished: Finished) -> None:
    """It exists for one of two metrics: it has the smallest number of all, half of the conditions, and wins nothing."""
    untouched = [k / 2 for k in range(9)]
    rises = {NONE: 2.2, "x/one": 1.2, "x/hard": 0.7, "x/two": 1.7}
    clean = dict.fromkeys(rises, untouched)
    scores = {(label, "a", "weak", False): [s + rise for s in untouched] for label, rise in rises.items()}
    columns = attacked(scores, clean)
    indices = [i for i, label in enumerate(columns["defense"]) if label != "x/hard"]
    other = {
        name: [values[i] for i in indices]
        for name, values in {**columns, "metric": ["n"] * len(columns["name"])}.items()
    }
    study = written(finished, {name: columns[name] + other[name] for name in columns}, trained=frozenset({"x/hard"}))
    result = worst.ranking(study, worst.rules(finished.query(), study, 0.05), {})
    values, places = by_label(result.tables[0]), result.rankings[0].places
    assert result.tables[0].caption.startswith("An attack on one image moves its score past those of others.")
    assert values["x/hard"]["coverage"].value == 50
    assert values["x/hard"]["worst"].value == pytest.approx(100 * 8 / 9 / 8), "the next one, of all but the last image"
    assert values["x/hard"]["rank"].value is None
    assert not places["x/hard"].complete
    assert result.rankings[0].winner != "x/hard"
    assert result.comparisons[0].families["x/hard"] == "training"


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [("severities", "quality labels are severities"), (NO_LABELS, "nobody judged these images")],
)
def test_proxies_are_named_in_the_headline(finished: Finished, proxy: str, expected: str) -> None:
    clean = {NONE: [1.0, 2.0, 3.0]}
    columns = attacked(
        {(NONE, "a", "weak", False): [2.0, 3.0, 4.0]}, clean, proxy=[proxy] * 3, labelled=["a small network"] * 3
    )
    written(finished, columns)
    proxies = report(finished.query(), 0.05).rankings[0].proxies
    assert proxies == (expected, "1 metric: a small network")


def test_heat_maps_stand_in_the_order_of_ranks_and_show_the_worst_strength(finished: Finished) -> None:
    clean = {label: [k / 2 for k in range(9)] for label in (NONE, "x/one", "x/two")}
    rises = {NONE: (2.2, 1.2), "x/one": (1.7, 0.7), "x/two": (0.0, 1.2)}
    scores = {
        (label, attack, strength, False): [s + rise * factor for s in clean[label]]
        for label, values in rises.items()
        for attack, rise in zip(("b", "a"), values, strict=True)
        for strength, factor in (("weak", 0.5), ("strong", 1.0))
    }
    written(finished, attacked(scores, clean))
    tables = {table.id: table for table in report(finished.query(), 0.05).tables}
    breaks, metrics = tables["breaks"], tables["attacks"]
    assert (
        [row.label for row in breaks.rows] == [row.label for row in tables["ranking"].rows] == ["x/two", "x/one", NONE]
    )
    assert [column.label for column in breaks.columns] == ["b", "a"], "the strongest attack first, by its mean"
    expected = {
        label: [np.mean(reversed_shares(clean[label], scores[label, attack, "strong", False])) for attack in "ba"]
        for label in clean
    }
    assert [[v.value for v in row.values.values()] for row in breaks.rows] == [
        pytest.approx(expected[label]) for label in ("x/two", "x/one", NONE)
    ]
    assert breaks.shading == pytest.approx(expected[NONE][0])
    assert [row.label for row in metrics.rows] == ["b", "a"]
    assert [next(iter(row.values.values())).value for row in metrics.rows] == pytest.approx(expected[NONE])


def test_an_entry_whose_audit_fails_and_a_control_are_not_crowned(finished: Finished) -> None:
    """x/false has the smallest number, and queries alone do better than its gradients."""
    names = [f"i{k}" for k in range(12)]
    clean = {label: [1.0 + k / 10 for k in range(12)] for label in (NONE, "x/false", "x/noise", "x/true")}
    rises, rng = {NONE: 0.85, "x/true": 0.35, "x/false": 0.15, "x/noise": 0.65}, np.random.default_rng(0)
    scores = {
        (label, "a", "weak", adaptive): [s + rises[label] + rng.normal(0, 0.05) for s in values]
        for label, values in clean.items()
        for adaptive in {False, label != NONE}
    }
    study = written(finished, attacked(scores, clean))
    audited = {
        "dataset": ["d"] * 12,
        "metric": ["m"] * 12,
        "defense": ["x/false"] * 12,
        "name": names,
        "photograph": names,
        "check": ["black box"] * 12,
        "floor": [0.5] * 12,
        "gain": [0.1] * 12,
    }
    finished.add("audit", audited, ("dataset", "metric", "defense"))
    facts = [
        {"kind": "defense", "label": NONE, "control": "no defense"},
        {"kind": "defense", "label": "x/noise", "control": "random noise"},
    ]
    query = ResultQuery(finished.store, finished.records, facts)
    rules = worst.rules(query, study, 0.05)
    assert rules.controls == {NONE: "no defense", "x/noise": "random noise"}
    result = worst.ranking(study, rules, {})
    assert result.rankings[0].places["x/false"].flags == ("audit of gradients: black box",)
    assert [row.label for row in result.tables[0].rows][:2] == ["x/true", "x/false"], "who may win comes first"
    assert result.rankings[0].winner == "x/true"
    assert worst.rules(finished.query(), study, 0.05).controls == {NONE: "no defense"}, "a store that marks none"


def test_rows_say_how_the_gradient_of_a_defense_was_had(finished: Finished) -> None:
    n = 4
    columns = {
        "defense": ["x/a", "x/b", "x/c", "x/c"],
        "gradient": ["own", "identity", "harness/diffjpeg", "none"],
        "method": ["a", "a", "a", "q"],
        "adaptive": [True] * n,
        "dataset": ["d"] * n,
        "metric": ["m"] * n,
        "name": ["i"] * n,
        "score": [1.0] * n,
        "strength": ["weak"] * n,
    }
    finished.add("evaluate", columns, ("dataset", "metric", "defense"))
    finished.add("attack", {**columns, "samples": [10, 1, 1, 1]}, ("dataset", "metric", "defense"))
    assert worst.gradients(finished.query()) == {
        "x/a": "its own; mean over 10 draws (EOT)",
        "x/b": "that of the identity in its place (BPDA)",
        "x/c": "that of harness/diffjpeg in its place (BPDA); queries alone",
    }


@pytest.mark.parametrize(
    ("dataset", "trained", "flagged"),
    [("d", False, True), ("d", True, False), ("harness/folder[path=photographs-5eed]", False, False)],
)
def test_who_agrees_with_public_labels_far_better_than_the_metric_is_suspected_of_knowing_them(
    finished: Finished, dataset: str, trained: bool, flagged: bool
) -> None:
    mixed = [13 * i % 40 + i / 2 for i in range(40)]
    clean = {NONE: mixed, "x/knows": [float(i) for i in range(40)], "x/mirror": [score + 0.1 for score in mixed]}
    scores = {(label, "a", "weak", False): [s + 1 for s in values] for label, values in clean.items()}
    columns = attacked(scores, clean, dataset=[dataset] * 120)
    study = written(finished, columns, trained=frozenset({"x/knows"} if trained else ()))
    flags = worst.rules(finished.query(), study, 0.05).flags
    assert {label for label, lines in flags.items() if any("may know the labels" in line for line in lines)} == (
        {"x/knows"} if flagged else set()
    )

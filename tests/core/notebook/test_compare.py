"""`imharness.compare`: two entries of one result or of two, by paired tests on the units that both have."""

import dataclasses

import numpy as np
import pytest

import imharness as ih
from imharness.documents.comparisons import Comparison, Condition
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place, Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.errors import UsageError
from imharness.leaderboard import NotTestable
from imharness.statistics.head_to_head import head_to_head

LABELS = ("local/mine", "harness/jpeg")
TABLE = Table(
    id="main",
    title="Defenses",
    caption="",
    entry="defense",
    ranked_by="d",
    columns=(ColumnSpec(key="d", label="D", description="", better="lower"),),
    rows=tuple(Row(label=label, values={"d": Value(value=1.0)}) for label in LABELS),
)


def result_with(scores: np.ndarray, units: tuple[str, ...], better: str = "lower", **facts: object) -> ih.Result:
    """Return a result with scores ``(2, 2 n)`` of two entries: those of n units under attack a, then under attack b."""
    comparison = Comparison(
        id="d",
        title="D",
        entry="defense",
        measure="D",
        description="",
        better=better,
        entries=LABELS,
        conditions=tuple(Condition(facets={"attack": name}, units=0) for name in ("a", "b")),
        unit_sets=(units,),
        tests=1,
        alpha=0.05,
        **facts,
    )
    return ih.Result("a test", [TABLE], paired=[(comparison, scores.astype(np.float32))])


@pytest.fixture
def scores() -> np.ndarray:
    """Return scores of two entries on 12 units under 2 attacks; the second is .2 higher on average."""
    return np.random.default_rng(0).random((2, 24)) + np.array([[0.0], [0.2]])


def test_two_rows_of_one_result_are_compared_as_the_site_compares_them(scores: np.ndarray) -> None:
    result = result_with(scores, tuple(f"u{i:02}" for i in range(12)))
    comparison = ih.compare(result["mine"], result["harness/jpeg"])
    # how much the first entry is better on each unit under each attack, rounded to 32 bits as stored scores are
    gains = (scores[1].astype(np.float32) - scores[0].astype(np.float32).astype(np.float64)).reshape(2, 12)
    wanted = head_to_head(gains.mean(axis=0), alpha=0.05)
    assert (comparison.better, comparison.worse, comparison.tests) == (wanted.better, wanted.worse, 2)
    expected = dataclasses.astuple(wanted.difference)[:4]
    assert dataclasses.astuple(comparison.difference)[:4] == pytest.approx(expected, rel=1e-12)
    assert (comparison.ahead, comparison.met) == (int((gains.mean(axis=1) > 0).sum()), 2)
    assert comparison.winner == "local/mine"
    assert "local/mine against jpeg by D: local/mine is better" in repr(comparison)
    turned = ih.compare(result["jpeg"], result["mine"])
    assert (turned.better, turned.worse) == (comparison.worse, comparison.better)


def test_a_test_that_finds_the_other_side_better_is_said_to_contradict_the_interval(scores: np.ndarray) -> None:
    result = result_with(scores, tuple(f"u{i:02}" for i in range(12)))
    comparison = ih.compare(result["mine"], result["jpeg"])
    assert comparison.winner == comparison.first == "local/mine"
    against = dataclasses.replace(comparison, better=1.0, worse=1e-9)
    assert "so it finds jpeg better, unlike the interval" in repr(against)
    assert "unlike the interval" not in repr(dataclasses.replace(comparison, better=1e-9, worse=1.0))
    assert "so it does not separate them, unlike the interval" in repr(
        dataclasses.replace(comparison, better=0.4, worse=0.6)
    )


def test_two_results_are_compared_on_the_units_that_both_have(scores: np.ndarray) -> None:
    units = tuple(f"u{i:02}" for i in range(12))
    one, other = result_with(scores, units), result_with(scores[::-1], units[::-1])
    comparison = ih.compare(one, other["mine"])
    assert comparison.difference.n == 12
    assert comparison.difference.value == pytest.approx((scores[1] - scores[0]).mean(), abs=1e-6)
    with pytest.raises(NotTestable):
        ih.compare(one, result_with(scores, tuple(f"v{i}" for i in range(12))))


def test_units_of_one_source_count_as_one(scores: np.ndarray) -> None:
    units = tuple(f"u{i:02}" for i in range(12))
    result = result_with(scores, units, clusters=(tuple(f"p{i // 2}" for i in range(12)),), cluster_unit="photograph")
    assert ih.compare(result["mine"], result["jpeg"]).difference.clusters == 6


def test_behind_a_ranking_the_worst_attack_on_each_unit_counts(scores: np.ndarray) -> None:
    result = result_with(scores, tuple(f"u{i:02}" for i in range(12)), over=("attack",), pairwise_alpha=0.002)
    standing = Place(complete=True, gate="passes", front=True, broken_by={})
    ranking = Ranking(
        table="main",
        comparison="d",
        over=("attack",),
        attack="attack",
        attacker="",
        unaware="",
        undefended="",
        gate=None,
        share=0.05,
        places=dict.fromkeys(LABELS, standing),
        winner="",
        claim="",
    )
    leaderboard = Leaderboard(
        track="a/b",
        title="",
        measures="",
        profile="quick",
        seed=0,
        limit=None,
        command="",
        finished="",
        missing=(),
        tasks_done=0,
        tasks_failed=0,
        tasks_missing=0,
        tables=(TABLE,),
        versions={},
        sources="",
        rankings=(ranking,),
    )
    worst = dataclasses.replace(result, leaderboards={"main": leaderboard})
    comparison = ih.compare(worst["mine"], worst["jpeg"])
    by_unit = scores.astype(np.float32).astype(np.float64).reshape(2, 2, 12).max(axis=1)
    assert comparison.difference.value == pytest.approx((by_unit[1] - by_unit[0]).mean(), abs=1e-6)
    wanted = head_to_head(by_unit[1] - by_unit[0], alpha=0.002)
    expected = (wanted.difference.low, wanted.difference.high)
    assert (comparison.difference.low, comparison.difference.high) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("units", "facts", "message"),
    [
        (4, {}, "undecided: 4 images, but an interval needs at least 5."),
        (1, {}, "undecided: 1 image, but an interval needs at least 5."),
        (
            12,
            {"clusters": (tuple("aaaaaabbbbbb"),), "cluster_unit": "photograph"},
            "undecided: 2 photographs, but an interval needs at least 5.",
        ),
    ],
)
def test_too_few_units_are_said_in_words_and_nothing_reads_nan(
    units: int, facts: dict, message: str, scores: np.ndarray
) -> None:
    result = result_with(scores[:, : 2 * units], tuple(f"u{i:02}" for i in range(units)), **facts)
    comparison = ih.compare(result["mine"], result["jpeg"])
    assert comparison.winner == ""
    assert message in repr(comparison)
    assert "nan" not in repr(comparison)


def test_entries_that_never_differ_are_said_to_be_equal(scores: np.ndarray) -> None:
    result = result_with(np.repeat(scores[:1], 2, axis=0), tuple(f"u{i:02}" for i in range(12)))
    assert "undecided: the two differ on no image." in repr(ih.compare(result["mine"], result["jpeg"]))


def test_errors_name_the_argument(scores: np.ndarray) -> None:
    result = result_with(scores, tuple(f"u{i:02}" for i in range(12)))
    with pytest.raises(UsageError, match="entry: no entry is called 'mien'"):
        result["mien"]
    with pytest.raises(UsageError, match="on: no comparison is called 'e'"):
        ih.compare(result, result, on="e")
    with pytest.raises(UsageError, match="b: expected a result or an entry of one"):
        ih.compare(result, "jpeg")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="b: its measure has the opposite direction"):
        ih.compare(result, result_with(scores, tuple(f"u{i:02}" for i in range(12)), better="higher"))

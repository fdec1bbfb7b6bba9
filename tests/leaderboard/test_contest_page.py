"""What a reader picks on the page of a track is ranked by the browser as by Python; questions that readers bring."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote_plus

import numpy as np
import pytest
import scipy
from playwright.sync_api import Browser, Locator, Page
from tests.truth.test_iqa import simulated as defended_scores
from tests.truth.test_membership import Simulated as Guesses
from tests.truth.test_membership_contest import contest_of as guessed
from tests.truth.test_membership_pools import EITHER
from tests.truth.test_membership_pools import simulated as pools
from tests.truth.test_perceptual_ranking import guesses
from tests.truth.test_perceptual_ranking import study as choices_of
from tests.truth.test_reconstruction_ranking import leaderboard as reconstructed

from imharness.documents.pairwise import pairwise_intervals
from imharness.documents.rankings import Ranking
from imharness.leaderboard import (
    Blocks,
    Column,
    Contest,
    Differences,
    SecondaryMeasure,
    Table,
    Value,
    Wins,
    contest,
    nested_interval,
)
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.statistics.head_to_head import head_to_head
from imharness.tracks import TrackReport
from imharness_iqa.tables import worst
from imharness_leaderboard.numbers import _index
from imharness_leaderboard.ranking_script import script_facts
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.scores import Scores, worst_case
from imharness_membership.tables import canaries
from imharness_membership.tables import contest as defenses
from imharness_membership.tables.choice import strongest
from imharness_membership.tables.contest import _protection
from imharness_membership.tables.contest import words_of as spoken
from imharness_membership.tables.rates import figures_at
from imharness_perceptual import ranked as perceptual
from imharness_reconstruction import ranked as reconstruction

from .browsing import SIZES, on_site, settled
from .conftest import sample_leaderboard
from .contested import (
    ATTACKS,
    DATASETS,
    FLIP,
    JPEG,
    LEVELS,
    MEDIAN,
    METRICS,
    NOISE,
    NONE,
    PROXIES,
    PURIFIER,
    WORDS,
    blocks,
    report,
    rules,
)

AGREE = {"rel": 1e-9, "abs": 1e-12}


def chosen(scores: Blocks, picks: dict[str, str], unaware: str = "fixed") -> list[int]:
    """Return the positions of the conditions that a choice leaves."""
    aware = {"": (True, False), "aware": (True,), "unaware": (False,)}[picks.get("attacker", "")]
    others = {key: value for key, value in picks.items() if key != "attacker"}
    return [c for c in scores.where(**others) if (scores.conditions[c]["attacker"] != unaware) in aware]


def fewer(scores: Blocks) -> Blocks:
    """Return the same images, as if they came from four photographs."""
    photographs = np.array([f"photograph {i % 4}" for i in range(12)], dtype=object)
    return replace(scores, about={"photograph": (photographs,) * len(scores.conditions)})


def result(page: Page) -> dict:
    page.locator("table.ranking[data-result]").wait_for()
    return json.loads(page.locator("table.ranking").first.get_attribute("data-result"))


def pick(page: Page, key: str, value: str) -> None:
    """Choose what counts: the attacker by a button, everything else from a list."""
    if key == "attacker":
        page.locator(f"input[data-pick=attacker][value='{value}']").check(force=True)
    else:
        page.locator(f"select[data-pick={key}]").select_option(value)


@pytest.mark.parametrize(
    "picks",
    [
        {"attacker": "unaware"},
        {"attacker": "aware"},
        {"attacker": "aware", "metric": METRICS[1]},
        {"attack": ATTACKS[1], "dataset": DATASETS[1]},
        {"attacker": "unaware", "attack": ATTACKS[0], "metric": METRICS[0], "dataset": DATASETS[0]},
    ],
)
def test_what_a_reader_picks_is_ranked_as_python_ranks_it(page: Page, picks: dict[str, str]) -> None:
    scores = blocks()
    subset = scores.subset(chosen(scores, picks))
    wanted = report(subset)
    ranking = wanted.rankings[0]
    settled(page, "contest.html")
    for key, value in picks.items():
        pick(page, key, value)
    page_result = result(page)
    assert page_result["winner"] == ranking.winner
    assert [row["label"] for row in page_result["rows"]] == [row.label for row in wanted.tables[0].rows]
    intervals = frozen(wanted)
    for row, displayed in zip(wanted.tables[0].rows, page_result["rows"], strict=True):
        i = subset.entries.index(row.label)
        if ranking.places[row.label].eligible:
            ranked = [k for k, label in enumerate(subset.entries) if ranking.places[label].eligible]
            own_rank = (displayed["rank"]["value"], displayed["rank"]["low"], displayed["rank"]["high"])
            assert own_rank == (row.values["rank"].value, *intervals.places(i, ranked))
        else:
            assert displayed["rank"] is None
        for key in ("worst", "unaware", "aware"):
            for end in ("value", "low", "high"):
                assert_same((displayed[key] or {}).get(end), getattr(row.values[key], end))
        if displayed["behind"] is not None:
            ahead = subset.entries.index(displayed["behind"]["label"])
            assert_same(displayed["behind"]["value"], row.values["behind"].value)
            for key in ("low", "high"):
                assert_same(displayed["behind"][key], getattr(intervals, key)[ahead, i])
        assert displayed["coverage"] == pytest.approx(row.values["coverage"].value, **AGREE)
        position = ranking.places[row.label]
        assert displayed["broken_by"] == pytest.approx(dict(position.broken_by), **AGREE)
        assert displayed["complete"] == position.complete


def frozen(subset: TrackReport, whole: TrackReport | None = None) -> Differences:
    """Return the differences of a part with the level and range of the whole, as a browser has them."""
    comparison, numbers = subset.comparisons[0].stored()
    whole_comparison, _ = (whole or report()).comparisons[0].stored()
    frozen = {name: getattr(whole_comparison, name) for name in ("pairwise_alpha", "value_range")}
    return pairwise_intervals(
        comparison.model_copy(update=frozen),
        numbers,
    )


def assert_same(value: float | None, wanted: float | None) -> None:
    assert (value is None) == (wanted is None)
    assert wanted is None or value == pytest.approx(wanted, **AGREE)


@pytest.mark.parametrize(("k", "clusters"), [(40, 8), (30, 30), (12, None), (4, None)])
def test_differences_with_gaps_weights_and_without_spread_equal_python_s(
    page: Page, k: int, clusters: int | None
) -> None:
    generator = np.random.default_rng(k)
    d, w = generator.normal(size=k), generator.uniform(1, 3, k)
    names = None if clusters is None else generator.integers(0, clusters, k)
    on_site(page)
    script = (
        "async ([d, names, w, facts]) => { const s = await import('/statistics.js');"
        " const r = s.interval(d, names, w, facts); return [r.value, r.low, r.high]; }"
    )
    for differences in (d, np.full(k, 0.25)):
        wanted = head_to_head(differences, names, w, alpha=0.004, value_range=1.5).difference
        facts = [
            differences.tolist(),
            None if names is None else names.tolist(),
            w.tolist(),
            {"alpha": 0.004, "value_range": 1.5},
        ]
        page_numbers = [np.nan if x is None else x for x in page.evaluate(script, facts)]
        assert page_numbers == pytest.approx([wanted.value, wanted.low, wanted.high], nan_ok=True, **AGREE)


@pytest.mark.parametrize(
    ("groups", "strata", "common"),
    [
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], None, 5.0),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], None, 0.0),
        ([0, 0, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5], [0] * 6 + [1] * 6, 5.0),
        ([0, 1, 2, 3, 4], None, 1.0),
        ([0, 0, 1, 1], None, 1.0),
    ],
)
def test_the_interval_of_units_in_groups_equals_python_s(
    page: Page, groups: list[int], strata: list[int] | None, common: float
) -> None:
    rng = np.random.default_rng(len(groups))
    numbers = rng.normal(size=len(groups)) + common * rng.normal(size=6)[groups]
    wanted = nested_interval(numbers, groups, strata)
    on_site(page)
    script = "async (given) => Object.values((await import('/statistics.js')).nestedInterval(...given))"
    page_numbers = page.evaluate(script, [numbers.tolist(), groups, strata or [0] * len(groups)])
    ends = [wanted.value, wanted.low, wanted.high]
    assert [np.nan if x is None else x for x in page_numbers] == pytest.approx(ends, nan_ok=True, **AGREE)


def in_browser(page: Page, scores: dict[str, np.ndarray], controls: list[str], **rules: object) -> dict:
    """Rank scores ``(conditions, units)``, more is better, by the script of the pages; controls may not win."""
    on_site(page)
    count, units = next(iter(scores.values())).shape
    index = {
        "better": "higher",
        "entries": list(scores),
        "units": list(range(units)),
        "unit_sets": [list(range(units))],
        "conditions": [{"facets": {"attack": f"a{c}", "attacker": "fixed"}, "units": 0} for c in range(count)],
        "starts": [units * c for c in range(count + 1)],
        "over": ["attack", "attacker"],
        "clusters": [],
        "weights": [],
        "pairwise_alpha": 0.01,
        "value_range": 1,
        "alphas": [],
    }
    places = {name: {"control": "c" * (name in controls), "able": name not in controls} for name in scores}
    facts = {"attack": "attack", "attacker": "attacker", "unaware": "fixed", "places": places, "undefended": ""}
    facts |= {"references": [], "alike": list(range(count)), "best_alpha": 0.05, "broken_alpha": 0.05}
    facts |= {"baseline": "", "matched": {}, "against_alphas": [0.04, 0.01]}
    facts |= {"silent": {}, "nested": {}, "chosen": False, **rules}
    script = (
        "async ([index, vectors, facts, conditions]) => (await import('/contest.js')).contest(index,"
        " vectors.map((own) => own.map((x) => x ?? NaN)), facts, conditions)"
    )
    vectors = [[None if np.isnan(x) else float(x) for x in block.ravel()] for block in scores.values()]
    return page.evaluate(script, [index, vectors, facts, list(range(count))])


def test_a_control_that_does_not_pass_keeps_the_crown_unless_nobody_has_to_be_better(page: Page) -> None:
    noise = np.random.default_rng(3).normal(size=(3, 1, 12))
    scores = {"acme/x": 5 + noise[0], "acme/y": noise[1], "harness/l2": 5.1 + noise[2]}
    free = in_browser(page, scores, ["harness/l2"], references=["harness/l2"])
    page_result = in_browser(page, scores, ["harness/l2"])
    assert (free["winner"], free["near"]) == ("acme/x", [])
    assert (page_result["first"], page_result["winner"], page_result["near"]) == ("acme/x", "", ["harness/l2"])


def test_entries_of_others_that_lack_an_attack_do_not_take_it_out_of_the_browser_s_contest(page: Page) -> None:
    base = np.random.default_rng(4).normal(size=(2, 12))
    others = {f"acme/{name}": np.array([base[0] + 9, np.full(12, np.nan)]) for name in "abc"}
    page_result = in_browser(page, {**others, "harness/one": base, "harness/two": base - 1}, [])
    assert {row["label"]: row["complete"] for row in page_result["rows"]} == {
        "acme/a": False,
        "acme/b": False,
        "acme/c": False,
        "harness/one": True,
        "harness/two": True,
    }
    assert page_result["winner"] == "harness/one"


@pytest.mark.parametrize(("name", "kind"), [("0.f32", "<f4"), ("0.f64", "<f8")])
def test_files_of_scores_are_read_with_the_bits_that_their_names_say(page: Page, name: str, kind: str) -> None:
    numbers = np.array([1e6 + 0.01, np.nan, -2.5]).astype(kind)
    on_site(page)
    script = (
        "async ([name, bytes]) => [...(await import('/statistics.js')).numbersOf(name, Uint8Array.from(bytes).buffer)]"
        ".map((x) => Number.isNaN(x) ? null : x)"
    )
    page_numbers = page.evaluate(script, [name, list(numbers.tobytes())])
    assert [np.nan if x is None else x for x in page_numbers] == pytest.approx(
        numbers.tolist(), rel=0, abs=0, nan_ok=True
    )


def test_the_tail_of_student_equals_scipy_s(page: Page) -> None:
    on_site(page)
    pairs = [[share, k] for share in (0.4, 0.05, 1e-3, 1e-6, 1e-12) for k in (4, 5, 11, 60, 1017)]
    script = (
        "async (pairs) => { const s = await import('/statistics.js');"
        " return pairs.map(([p, k]) => s.studentQuantile(p, k)); }"
    )
    page_numbers = page.evaluate(script, pairs)
    assert page_numbers == pytest.approx([scipy.stats.t.isf(share, k) for share, k in pairs], rel=1e-9)


def in_both(page: Page, report: TrackReport, index: int = 0) -> tuple[list[tuple[dict[str, str], dict]], Ranking]:
    """Rank by the script of the pages, from the files of the site: under all settings, and by each single choice."""
    ranking = report.rankings[index]
    stored = {paired.id: paired.stored() for paired in report.comparisons}
    leaderboard = sample_leaderboard(
        tables=tuple(report.tables),
        rankings=tuple(report.rankings),
        comparisons=tuple(comparison for comparison, _ in stored.values()),
    )
    scores = {id: Scores(leaderboard, *comparison) for id, comparison in stored.items()}
    (table,) = [candidate for candidate in report.tables if candidate.id == ranking.table]
    view = RankingView(leaderboard, ranking, table, scores[ranking.comparison], (), "")
    picks = [{}, *({picker.key: value} for picker in view.pickers for value, _ in picker.options if value)]
    files = [
        [
            json.loads(_index(scores[id], "", [], {})),
            [[None if np.isnan(x) else float(x) for x in row] for row in scores[id].vectors],
            scores[id].vectors.dtype.itemsize,
        ]
        for id in ranking.secondary_measures
        if id in scores
    ]
    script = (
        "async ([files, facts, picks]) => { const s = await import('/contest.js'), found = [];"
        " const read = files.map(([index, rows, size]) => ({ index, vectors: rows.map((row) =>"
        " (size === 4 ? Float32Array : Float64Array).from(row, (x) => x ?? NaN)) }));"
        " for (const pick of picks) { const [first, ...others] = read.map((one) => ({ ...one, conditions:"
        " s.conditionsOf(one.index, facts, pick) }));"
        " found.push(await s.contest(first.index, first.vectors, facts, first.conditions, others)); }"
        " return found; }"
    )
    on_site(page)
    displayed = page.evaluate(script, [files, json.loads(json.dumps(script_facts(view))), picks])
    return list(zip(picks, displayed, strict=True)), ranking


def test_what_rounding_parts_has_no_spread_in_the_browser_either(page: Page) -> None:
    """Tenths that differ by a tenth on all of eight units: as whole numbers would, they show less than t would."""
    tenths = np.arange(8) + np.array([[30], [9], [8], [7]])
    entries = ("harness/none", "a", "b", "c")
    scores = Blocks(
        entries,
        ({"attack": "t", "attacker": "fixed", "metric": "m"},),
        (np.array([f"i{k}" for k in range(8)], dtype=object),),
        {"d": (np.float32(tenths / 10),)},
    )
    worth = lambda label: Value(value=0.9)  # noqa: E731
    column = Column("d", "D", "", "lower", 2, wins=Wins("first", "", ""), unit="image")
    of = Contest(scores, column, Column("u", "u", "", "higher", value=worth), entries[0], words=WORDS, gates=())
    eighths = contest(replace(of, controls={entries[0]: "no defense"}), id="r", title="", caption="", entry="defense")
    ((_, displayed), *_), ranking = in_both(page, eighths)
    assert_ranked(displayed, ranking, eighths.tables[0])
    assert (ranking.first, ranking.winner, set(ranking.may_be_best)) == ("c", "", {"a", "b", "c"})


@pytest.mark.parametrize("seed", range(6))
def test_all_yardsticks_and_what_says_nothing_count_in_the_browser_as_in_python(page: Page, seed: int) -> None:
    """In some studies a secondary measure contradicts, so that nobody wins; an attack that failed withholds nothing."""
    rng = np.random.default_rng(seed)
    entries = ("harness/none", "a", "b", "c")
    conditions = tuple({"attack": f"t{i}", "attacker": ("fixed", "adaptive")[i % 2], "metric": "m"} for i in range(4))
    names = np.array([f"i{k}" for k in range(16)], dtype=object)
    sources = (np.array([f"photograph {k // 2}" for k in range(16)], dtype=object),) * 4
    ahead = np.array([0.0, 9.0, 2.0, 2.0])[:, None]
    first = [rng.normal(0, 1, (4, 16)) + ahead for _ in conditions]
    failed = [np.zeros((4, 16)) for _ in conditions]
    failed[1][1, ::3] = 1.0
    gapped_blocks = [
        np.where(gone == 1, np.nan, block).astype(np.float32) for gone, block in zip(failed, first, strict=True)
    ]
    second = [(rng.normal(0, 1, (4, 16)) + ahead * (seed % 3 - 0.5)).astype(np.float32) for _ in conditions]
    column = replace(rules(blocks()).protection, better="higher", key="d")
    measures, about = {"d": tuple(gapped_blocks), "failed": tuple(failed)}, {"photograph": sources}
    scores = Blocks(entries, conditions, (names,) * 4, measures, about)
    beside = Blocks(
        entries,
        tuple({**facets, "metric": "n"} for facets in conditions),
        (names,) * 4,
        {"d": tuple(second)},
        about,
    )
    wins = replace(column.wins, id="other")
    report = contest(
        replace(
            rules(scores, undefended="harness/none", controls={"harness/none": "undefended"}, gates=(), flags={}),
            protection=column,
            utility=Column("u", "U", "U.", "higher", value=lambda _: Value(value=1.0)),
            met="failed",
            secondary_measures=(SecondaryMeasure(beside, replace(column, key="e", of="d", wins=wins)),),
        ),
        id="r",
        title="",
        caption="",
        entry="defense",
    )
    ((_, displayed), *_), ranking = in_both(page, report)
    assert {row["label"]: row["complete"] for row in displayed["rows"]} == {
        label: position.complete for label, position in ranking.places.items()
    }
    assert (displayed["winner"], displayed["first"]) == (ranking.winner, ranking.first)
    assert (set(displayed["may"]), set(displayed["near"])) == (set(ranking.may_be_best), set(ranking.not_behind))
    assert bool(displayed["disagrees"]) == (ranking.outcome == "measures disagree")
    assert bool(ranking.winner) == (seed % 3 > 0)
    ((_, alone), *_), _ = in_both(page, replace(report, comparisons=report.comparisons[:1]))
    assert alone["winner"] == "a"


def iqa_report(seed: int, folder: Path) -> TrackReport:
    """Two attacks on images of photographs, five of each."""
    study = defended_scores(seed, gain=2.0 * seed)
    return worst.ranking(study, worst.rules(ResultQuery(Store(folder), []), study, 0.05), {})


def membership_report(seed: int, folder: Path) -> TrackReport:
    """Return a report in which attacks are chosen on other rows; with seed 1 a defense lacks one attack."""
    query = Guesses(4, seed, splits=8, spread=0.1, evaluators=4, gap=(1.0, 0.0, 0.5, 0.4))
    if seed == 1:
        query.remove("defense = 'x/03' AND evaluator = 'x/02'")
    return guessed(query, 0.25 if seed == 2 else 0.01)


def reconstruction_report(seed: int, folder: Path) -> TrackReport:
    """Return a report in which some attacks do not converge, and a secondary measure contradicts another one."""
    rng = np.random.default_rng(seed)
    psnr = np.array([[24.0], [9.0], [18.0 - 8 * seed]]) + rng.normal(0, 1, (3, 30))
    votes = rng.random((3, 30)) < np.array([[1.0], [0.5 * seed], [0.1]])
    return reconstructed(psnr, votes, rng.random((3, 30)) < np.array([[1.0], [0.9], [0.8]]))


def perceptual_report(seed: int, folder: Path) -> TrackReport:
    """Return a report of choices from families of unequal size; an attack turns some, and one metric met no attack."""
    rng = np.random.default_rng(seed)
    right = {f"harness/m{i}": rng.random(90) < 1 - 0.1 * i for i in range(5)}
    attacked = {label: answers & (rng.random(90) < 0.8) for label, answers in right.items() if label != "harness/m1"}
    return choices_of(right, attacked, {"harness/m4": "a guess"}, judges=5 * (seed % 2))


def pooled_report(seed: int, folder: Path) -> TrackReport:
    """Return a report of splits that share pools of rows, in two data sets; one defense lacks some of them."""
    pooled_scores = strongest(pools({"x/one": 0.53, "x/other": 0.62}, 0.3), "accuracy", EITHER).scores
    rows = slice(4 * seed, 4 * seed + 4)
    accuracy = [block[rows].copy() for block in pooled_scores.values["accuracy"]]
    accuracy[0][1, :3] = np.nan
    scores = replace(pooled_scores, entries=pooled_scores.entries[rows], values={"accuracy": tuple(accuracy)})
    utility = Column("test", "test accuracy", "Test accuracy.", "higher", value=lambda _: Value(value=0.9))
    of = Contest(
        scores,
        _protection(figures_at(), "accuracy", pooled=True),
        utility,
        scores.entries[0],
        words=spoken("of guesses"),
        gates=(),
        attack="evaluator",
        over=("evaluator", "attacker"),
    )
    return defenses.contest(of, id="defenses", title="", caption="", entry="defense")


@pytest.fixture
def contests(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[list[int]], TrackReport]]:
    """Table of a ranking -> a function that ranks by some of its conditions; filled while a test makes rankings."""
    rankers = {}

    def seen(of: Contest, **about: str) -> TrackReport:
        rankers[about["id"]] = lambda subset: contest(replace(of, scores=of.scores.subset(subset)), **about)
        rankers[about["id"]].scores = of.scores
        return contest(of, **about)

    for module in (worst, defenses, canaries, reconstruction, perceptual):
        monkeypatch.setattr(module, "contest", seen)
    return rankers


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make_report", [iqa_report, membership_report, pooled_report, reconstruction_report, perceptual_report]
)
def test_reports_of_all_tracks_are_ranked_by_the_browser_as_by_python(
    page: Page, tmp_path: Path, contests: dict, make_report: Callable[[int, Path], TrackReport], seed: int
) -> None:
    """By all rankings and choices the means and intervals are equal; without a choice also the places and the
    winner."""
    report = make_report(seed, tmp_path)
    for index, ranking in enumerate(report.rankings):
        again = contests[ranking.table]
        for picks, displayed in in_both(page, report, index)[0]:
            subset = again(chosen(again.scores, picks, ranking.unaware)) if picks else report
            (table,) = [candidate for candidate in subset.tables if candidate.id == ranking.table]
            values = {row.label: row.values for row in table.rows}
            for row in displayed["rows"]:
                for key in ("worst",) if ranking.chosen else ("worst", "unaware", "aware"):
                    for end in ("value", "low", "high"):
                        assert_close((row[key] or {}).get(end), getattr(values[row["label"]][key], end))
            if not picks:
                assert_ranked(displayed, ranking, table)


def assert_ranked(displayed: dict, ranking: Ranking, table: Table) -> None:
    assert [row["label"] for row in displayed["rows"]] == [row.label for row in table.rows]
    assert (displayed["winner"], displayed["may"]) == (ranking.winner, list(ranking.may_be_best))
    for row, page_row in zip(table.rows, displayed["rows"], strict=True):
        position = ranking.places[row.label]
        assert page_row["complete"] == position.complete
        assert page_row["broken"] == (position.broken.attack if position.broken else "")
        for key in ("rank", "behind"):
            for end in ("value", "low", "high"):
                assert_close((page_row[key] or {}).get(end), getattr(row.values[key], end))
        if not ranking.chosen:
            assert page_row["coverage"] == pytest.approx(row.values["coverage"].value)
            assert page_row["broken_by"] == pytest.approx(dict(position.broken_by))


def assert_close(value: float | None, wanted: float | None) -> None:
    """Assert that two numbers are equal but for the rounding of scores to 32 bits."""
    assert (value is None) == (wanted is None)
    assert wanted is None or value == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_choices_of_families_that_weigh_the_same_are_ranked_as_in_python(page: Page) -> None:
    correct = np.ones(90, dtype=bool)
    ((_, displayed), *_), ranking = in_both(
        page,
        choices_of(
            {"harness/knows": correct, "harness/turns": np.arange(90) % 10 > 0, "harness/guesses": guesses(1)},
            {
                "harness/knows": np.arange(90) % 9 > 0,
                "harness/turns": np.arange(90) % 3 > 0,
                "harness/guesses": correct,
            },
            {"harness/guesses": "a guess"},
        ),
    )
    assert (displayed["winner"], set(displayed["may"])) == (ranking.winner, set(ranking.may_be_best))
    assert {row["label"] for row in displayed["rows"] if row["complete"]} == {
        label for label, position in ranking.places.items() if position.complete
    }


def order(page: Page) -> list[str]:
    return page.locator("table.ranking tr.entry").evaluate_all("(rows) => rows.map((row) => row.dataset.label)")


def row_of(page: Page, label: str) -> Locator:
    return page.locator(f"tr.entry[data-label='{label}']")


def test_the_choice_stands_in_the_address_and_the_back_button_takes_it_back(page: Page) -> None:
    settled(page, "contest.html")
    default = order(page)
    assert default == [row.label for row in report().tables[0].rows]
    pick(page, "attacker", "unaware")
    result(page)
    assert order(page)[0] == FLIP  # NOISE is ahead, and costs too much
    assert page.url.endswith("?attacker=unaware")
    link = page.url
    pick(page, "metric", METRICS[1])
    page.wait_for_url("**metric=**")
    page.go_back()
    result(page)
    assert page.locator("select[data-pick=metric]").input_value() == ""
    page.go_back()
    page.locator("table.ranking:not([data-result])").wait_for()
    assert order(page) == default
    settled(page, "about:blank")
    settled(page, link)
    assert result(page)["winner"] == FLIP
    assert page.locator(".badge.first").count() == 0, "who wins is asked under all settings only"
    assert "leads" in page.locator(".verdict").inner_text()
    assert "wins" not in page.locator(".verdict").inner_text()
    assert row_of(page, FLIP).locator(".badge.broken").count() == 0


def test_without_scripts_the_ranking_and_its_details_stand(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=address)
    opened = context.new_page()
    opened.goto("contest.html")
    assert order(opened) == [row.label for row in report().tables[0].rows]
    assert not opened.locator(".bar").is_visible()
    row_of(opened, JPEG).get_by_role("link", name="details").click()
    assert f"--defense '{JPEG}'" in opened.locator(".opened").inner_text()
    context.close()


class TestAtMostTwoClicks:
    """Questions that readers bring, each answered from the home page by at most two clicks."""

    def test_which_defense_if_the_attacker_knows_it(self, page: Page) -> None:
        settled(page, "index.html")
        section = page.locator(".asked section", has_text="JPEG holds best: ")
        section.get_by_role("link", name="See ranking").click()
        page.get_by_role("checkbox").first.wait_for()
        page.get_by_label("Knows it", exact=True).check(force=True)
        assert result(page)["winner"] == JPEG
        sentence = "With an attacker who knows the defense: JPEG leads with D, %"
        assert page.locator(".verdict").inner_text().startswith(sentence)

    def test_is_one_better_than_another(self, page: Page) -> None:
        settled(page, "index.html")
        page.get_by_role("link", name="Compare (JPEG and no defense)").click()
        self.compared(page, JPEG, NONE, {})

    def test_is_one_better_than_another_under_attacks_that_know_it(self, page: Page) -> None:
        settled(page, "contest.html?attacker=aware")
        result(page)
        for label in (JPEG, NOISE):
            row_of(page, label).get_by_role("checkbox").check()
        page.get_by_role("link", name="Compare 2").click()
        self.compared(page, JPEG, NOISE, {"attacker": "aware"})

    def compared(self, page: Page, first: str, second: str, picks: dict[str, str]) -> None:
        page.locator("#result tr[data-pair]").first.wait_for()
        row = page.locator("#result tr[data-pair]")
        assert set(json.loads(row.first.get_attribute("data-pair"))) == {first, second}
        scores = blocks()
        aware = scores.subset(chosen(scores, picks))
        worst = rules(aware).worst
        means = {e: -worst[aware.entries.index(e)].mean() for e in (first, second)}
        facts = json.loads(row.first.get_attribute("data-raw"))
        a, b = json.loads(row.first.get_attribute("data-pair"))
        assert facts["difference"]["value"] == pytest.approx(means[b] - means[a], rel=1e-5)

    def test_the_choice_of_the_page_goes_along_to_the_comparison(self, page: Page) -> None:
        settled(page, f"contest.html?attacker=unaware&metric={METRICS[0]}")
        first = result(page)["rows"][0]["label"]
        assert first != NOISE, "a flagged entry comes after those that may win"
        for label in (first, NOISE):
            row_of(page, label).get_by_role("checkbox").check()
        link = page.get_by_role("link", name="Compare 2").get_attribute("href")
        words = unquote_plus(link)
        assert "without.attacker=adaptive" in words
        assert f"without.metric={METRICS[1]}" in words

    def test_what_broke_this_entry(self, page: Page) -> None:
        settled(page, "index.html")
        page.get_by_role("link", name="Contest track").first.click()
        row = row_of(page, FLIP)
        assert row.locator(".badge.broken").inner_text() == "broken by I-FGSM"
        assert page.locator(".badge.broken").count() == 1
        share = report().rankings[0].places[FLIP].broken_by[ATTACKS[0]]
        assert row.locator(".worst .by").inner_text() == f"I-FGSM, {share:.0%}"

    def test_a_difference_that_may_be_chance_is_not_called_broken(self) -> None:
        """With four photographs there is no interval, and nothing is called broken."""
        full, few = report(), report(fewer(blocks()))
        labels = []
        for contest_report in (full, few):
            view = RankingView(
                sample_leaderboard(rankings=contest_report.rankings),
                contest_report.rankings[0],
                contest_report.tables[0],
                None,
                (),
                "",
            )
            labels.append([row.row.label for row in view.rows if any(b.kind == "broken" for b in row.badges)])
        assert labels == [[FLIP], []]

    def test_what_did_the_images_look_like_how_do_i_cite_export_and_reproduce_this_row(self, page: Page) -> None:
        settled(page, "index.html")
        page.get_by_role("link", name="Contest track").first.click()
        row_of(page, JPEG).get_by_role("button", name="details").click()
        details = page.locator("tr.more-row .opened")
        details.wait_for()
        assert details.get_by_role("img", name=re.compile("photograph 0")).count() >= 4
        text = details.inner_text()
        assert f"harness run --track harness/contest --profile p --seed 0 --limit 3 --defense '{JPEG}'" in text
        assert re.search(r"@misc\{image-privacy-leaderboard-contest-track-jpeg", text)
        assert "A. Author" in text
        assert "version 3 of the numbers" in text
        assert details.get_by_role("link", name="CSV").is_visible()
        assert details.get_by_role("link", name="scores behind it").is_visible()

    def test_which_labels_are_proxies_and_what_changed_and_how_to_cite_and_submit(self, page: Page) -> None:
        settled(page, "index.html")
        page.locator(".data-strip summary").click()
        assert f"{PROXIES[0]}; do not cite" in page.locator(".data-strip").inner_text()
        page.get_by_role("link", name="Cite", exact=True).click()
        assert "@misc{image-privacy-leaderboard-contest-track-2026" in page.locator("main").inner_text()
        assert "cff-version" in page.locator("main").inner_text()
        page.go_back()
        page.get_by_role("link", name="Submit", exact=True).click()
        assert "harness submissions" in page.locator("main").inner_text()
        page.go_back()
        page.get_by_role("link", name="Changes", exact=True).first.click()
        page.get_by_role("heading", name="What changed").wait_for()

    def test_an_entry_is_found_by_its_name(self, page: Page) -> None:
        settled(page, "index.html")
        page.get_by_role("button", name="Search").click()
        page.get_by_label("Search entries, papers, terms and tables").fill("purifier")
        page.locator(".found a").first.click()
        assert "a-purifier-with-a-long-name" in page.locator("h1").inner_text()


def test_a_phone_shows_the_first_row_high_up_and_breaks_no_name(page: Page) -> None:
    page.set_viewport_size(SIZES["phone"])
    settled(page, "contest.html")
    first = page.locator("tr.entry").first.bounding_box()
    assert first["y"] < 600
    heights = page.locator("tr.entry .name a").evaluate_all(
        "(names) => names.map((n) => /[- ]/.test(n.textContent) ? 1 : n.getClientRects().length)"
    )
    assert set(heights) == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_labels_of_the_front_overprint_nothing(page: Page) -> None:
    settled(page, "contest.html")
    boxes = page.locator(".large-front .label, .large-front .mark").evaluate_all(
        "(all) => all.map((one) => { const b = one.getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom]; })"
    )
    labels = page.locator(".large-front .label").count()
    assert labels >= 5
    for i, (a, b, c, d) in enumerate(boxes):
        for e, f, g, h in boxes[max(i + 1, labels if i >= labels else i + 1) :]:
            if i < labels or (e, f, g, h) in boxes[:labels]:
                assert not (a < g - 1 and e < c - 1 and b < h - 3 and f < d - 3)


def test_the_chart_says_its_measure_and_unit(page: Page) -> None:
    settled(page, "contest.html")
    heads = page.locator("table.ranking thead th").all_inner_texts()
    assert len(heads) == 6
    assert "D, % of the range" in heads[2]
    assert "Wilcoxon p" in heads[4]


class Downloaded:
    """A comparison as a reader has downloaded it: an index, and a file of float32 for each entry."""

    def __init__(self, folder: Path, name: str) -> None:
        self.index = json.loads((folder / name).read_text())
        rows = [
            np.frombuffer((folder / name).parent.joinpath(file).read_bytes(), "<f4") for file in self.index["files"]
        ]
        self.rows = dict(zip(self.index["entries"], rows, strict=True))

    def worst(self, label: str) -> dict[int, float]:
        """Return for each unit the largest D of each metric and data set, averaged: computed anew, number by number."""
        by_unit: dict[int, dict[tuple, float]] = {}
        for c, condition in enumerate(self.index["conditions"]):
            group = (condition["facets"]["metric"], condition["facets"]["dataset"])
            for i, unit in enumerate(self.index["unit_sets"][condition["units"]]):
                d = float(self.rows[label][self.index["starts"][c] + i])
                if not np.isnan(d):
                    by_group = by_unit.setdefault(unit, {})
                    by_group[group] = max(by_group.get(group, -np.inf), d)
        return {unit: float(np.mean(list(group_values.values()))) for unit, group_values in by_unit.items()}


def test_a_reader_who_recomputes_the_headline_from_the_files_gets_the_same_sentence(built: Path) -> None:
    """The winner, its numbers and the test against the control, from the downloaded files alone."""
    results = json.loads((built / "data" / "results.json").read_text())
    (leaderboard,) = [leaderboard for leaderboard in results["leaderboards"] if leaderboard["rankings"]]
    (ranking,) = leaderboard["rankings"]
    data = Downloaded(built / "data" / "contest", f"{ranking['comparison']}.vectors.json")
    (table,) = [candidate for candidate in leaderboard["tables"] if candidate["id"] == ranking["table"]]
    utility = {row["label"]: row["values"]["utility"]["value"] for row in table["rows"]}
    worst = {label: data.worst(label) for label in data.rows}
    gate = utility[NONE] * (1 - ranking["share"])
    everything = data.index["starts"][-1]
    stands = [
        label
        for label, row in data.rows.items()
        if len(row) == everything
        and not np.isnan(row).any()
        and utility[label] >= gate
        and not ranking["places"][label]["control"]
        and not ranking["places"][label]["flags"]
    ]
    assert set(stands) == {JPEG, FLIP}
    best = min(stands, key=lambda label: np.mean(list(worst[label].values())))
    assert best == ranking["winner"]
    photographs = dict(zip(worst[best], (data.index["clusters"][unit] for unit in worst[best]), strict=True))
    gains = np.zeros(len(set(photographs.values())))
    for unit, photograph in photographs.items():
        gains[photograph] += (worst[NONE][unit] - worst[best][unit]) / list(photographs.values()).count(photograph)
    assert scipy.stats.ttest_1samp(gains, 0).confidence_interval(1 - data.index["pairwise_alpha"]).low > 0
    numbers = (f"{np.mean(list(worst[label].values())):.2f} %" for label in (best, NONE))
    sentence = "holds best: {} of the range, {} without a defense.".format(*numbers)
    assert ranking["claim"] == f"{best} {sentence}"
    assert f"JPEG {sentence}" in (built / "index.html").read_text()


def test_small_drawings_show_the_worst_case_of_each_metric() -> None:
    scores = blocks()
    full = report(scores)
    comparison, numbers = full.comparisons[0].stored()
    for metric in METRICS:
        selected = scores.where(metric=metric)
        worst_values = worst_case(comparison, numbers, full.rankings[0], selected)
        wanted = contest(
            replace(rules(scores), scores=scores.subset(selected)), id="c", title="", caption="", entry="defense"
        )
        values = {row.label: row.values["worst"].value for row in wanted.tables[0].rows}
        assert dict(zip(comparison.entries, worst_values, strict=True)) == pytest.approx(values, rel=1e-12)


def test_the_fixture_is_what_it_says(built: Path) -> None:
    places, rows = report().rankings[0].places, report().tables[0].rows
    assert {row.label for row in rows} == set(LEVELS)
    assert not places[PURIFIER].complete
    assert places[MEDIAN].gate == "fails"

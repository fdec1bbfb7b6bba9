"""What a reader picks on the page of a track, the browser ranks as Python does; and the questions readers come with."""

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
from tests.truth.test_perceptual_ranking import guesses
from tests.truth.test_perceptual_ranking import study as choices_of
from tests.truth.test_reconstruction_ranking import board as reconstructed

from imharness.contests import Yardstick, contest
from imharness.results.query import ResultQuery
from imharness.results.rankings import Ranking
from imharness.results.store import Store
from imharness.results.told import places, told_of, weights_of
from imharness.statistics.bootstrap import percentiles
from imharness.statistics.clusters import coded
from imharness.statistics.head_to_head import head_to_head, resampled
from imharness.stats import Differences
from imharness.tables import Blocks, Column, Value
from imharness.tracks import TrackReport
from imharness_iqa.tables import worst
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.worst_case import worst_case

from .browsing import SIZES, on_site, settled, words_of
from .conftest import board
from .contested import (
    ATTACKS,
    CLAIM,
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
    blocks,
    report,
    rules,
)

AGREE = {"rel": 1e-9, "abs": 1e-12}


def chosen(scores: Blocks, picks: dict[str, str]) -> list[int]:
    """Return the settings that a choice leaves."""
    aware = {"": (True, False), "aware": (True,), "unaware": (False,)}[picks.get("attacker", "")]
    others = {key: value for key, value in picks.items() if key != "attacker"}
    return [c for c in scores.where(**others) if (scores.conditions[c]["attacker"] != "fixed") in aware]


def fewer(scores: Blocks) -> Blocks:
    """Return the same images, said to be of four photographs."""
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
    part = scores.part(chosen(scores, picks))
    wanted = report(part)
    rules_here, ranking = rules(part), wanted.rankings[0]
    settled(page, "contest.html")
    for key, value in picks.items():
        pick(page, key, value)
    found = result(page)
    assert found["winner"] == ranking.winner
    assert [row["label"] for row in found["rows"]] == [row.label for row in wanted.tables[0].rows]
    own = rules_here.worst
    told, complete = frozen(wanted), [label for label, place in ranking.places.items() if place.complete]
    for row, shown in zip(wanted.tables[0].rows, found["rows"], strict=True):
        i = part.entries.index(row.label)
        if row.label in complete and not ranking.places[row.label].control:
            ranked = [k for k, own in enumerate(part.entries) if own in complete and not ranking.places[own].control]
            own_rank = (shown["rank"]["value"], shown["rank"]["low"], shown["rank"]["high"])
            assert own_rank == (row.values["rank"].value, *told.places(i, ranked))
        else:
            assert shown["rank"] is None
        for key in ("worst", "unaware", "aware"):
            assert_same((shown[key] or {}).get("value"), row.values[key].value)
        if shown["behind"] is not None:
            ahead = part.entries.index(shown["behind"]["label"])
            assert_same(shown["behind"]["value"], row.values["behind"].value)
            for key in ("low", "high"):
                assert_same(shown["behind"][key], getattr(told, key)[ahead, i])
        assert shown["coverage"] == pytest.approx(row.values["coverage"].value, **AGREE)
        place = ranking.places[row.label]
        assert shown["broken_by"] == pytest.approx(dict(place.broken_by), **AGREE)
        assert shown["complete"] == place.complete
        low, high = interval(-own[part.entries.index(row.label)], rules_here.clusters)
        assert (shown["worst"]["low"], shown["worst"]["high"]) == pytest.approx((low, high), **AGREE)


def frozen(part: TrackReport, whole: TrackReport | None = None) -> Differences:
    """Return the differences of a part with the tail of the whole, as a browser has it."""
    own, numbers = part.comparisons[0].stored()
    known, _ = (whole or report()).comparisons[0].stored()
    return told_of(own.model_copy(update={"tail": known.tail, "reach": known.reach}), numbers)


def assert_same(found: float | None, wanted: float | None) -> None:
    assert (found is None) == (wanted is None)
    assert wanted is None or found == pytest.approx(wanted, **AGREE)


def interval(numbers: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """Return the interval of a mean by the draws that a browser can repeat."""
    known = ~np.isnan(numbers)
    codes, k = coded(clusters[known])
    drawn = resampled(k)
    sums, sizes = np.bincount(codes, numbers[known]), np.bincount(codes)
    low, high = percentiles(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), k)
    return float(low), float(high)


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
    for own in (d, np.full(k, 0.25)):
        wanted = head_to_head(own, names, w, tail=0.004, reach=1.5).difference
        facts = [own.tolist(), None if names is None else names.tolist(), w.tolist(), {"tail": 0.004, "reach": 1.5}]
        found = [np.nan if x is None else x for x in page.evaluate(script, facts)]
        assert found == pytest.approx([wanted.value, wanted.low, wanted.high], nan_ok=True, **AGREE)


def in_browser(page: Page, scores: dict[str, np.ndarray], controls: list[str], **rules: object) -> dict:
    """Rank scores ``(settings, units)``, more is better, by the script of the pages; controls do not pass the gate."""
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
        "tail": 0.01,
        "reach": 1,
        "tails": [],
    }
    places = {name: {"control": "c" * (name in controls), "able": name not in controls} for name in scores}
    facts = {"attack": "attack", "attacker": "attacker", "unaware": "fixed", "places": places, "undefended": ""}
    facts |= {"references": [], "alike": list(range(count)), "control_tails": [0.05], "broken_tail": 0.05}
    facts |= {"silent": {}, "chosen": False, **rules}
    script = (
        "async ([index, vectors, facts, conditions]) => (await import('/contest.js')).contest(index,"
        " vectors.map((own) => own.map((x) => x ?? NaN)), facts, conditions)"
    )
    vectors = [[None if np.isnan(x) else float(x) for x in own.ravel()] for own in scores.values()]
    return page.evaluate(script, [index, vectors, facts, list(range(count))])


def test_a_control_that_does_not_pass_keeps_the_crown_unless_nobody_has_to_be_better(page: Page) -> None:
    noise = np.random.default_rng(3).normal(size=(3, 1, 12))
    scores = {"acme/x": 5 + noise[0], "acme/y": noise[1], "harness/l2": 5.1 + noise[2]}
    free = in_browser(page, scores, ["harness/l2"], references=["harness/l2"])
    held = in_browser(page, scores, ["harness/l2"])
    assert (free["winner"], free["rival"]) == ("acme/x", "")
    assert (held["first"], held["winner"], held["rival"]) == ("acme/x", "", "harness/l2")


def test_entries_of_others_that_lack_an_attack_do_not_take_it_out_of_the_browser_s_contest(page: Page) -> None:
    base = np.random.default_rng(4).normal(size=(2, 12))
    held = {f"acme/{name}": np.array([base[0] + 9, np.full(12, np.nan)]) for name in "abc"}
    found = in_browser(page, {**held, "harness/one": base, "harness/two": base - 1}, [])
    assert {row["label"]: row["complete"] for row in found["rows"]} == {
        "acme/a": False,
        "acme/b": False,
        "acme/c": False,
        "harness/one": True,
        "harness/two": True,
    }
    assert found["winner"] == "harness/one"


@pytest.mark.parametrize(("name", "kind"), [("0.f32", "<f4"), ("0.f64", "<f8")])
def test_files_of_scores_are_read_with_the_bits_that_their_names_say(page: Page, name: str, kind: str) -> None:
    numbers = np.array([1e6 + 0.01, np.nan, -2.5]).astype(kind)
    on_site(page)
    script = (
        "async ([name, bytes]) => [...(await import('/statistics.js')).numbersOf(name, Uint8Array.from(bytes).buffer)]"
        ".map((x) => Number.isNaN(x) ? null : x)"
    )
    found = page.evaluate(script, [name, list(numbers.tobytes())])
    assert [np.nan if x is None else x for x in found] == pytest.approx(numbers.tolist(), rel=0, abs=0, nan_ok=True)


def test_the_tail_of_student_equals_scipy_s(page: Page) -> None:
    on_site(page)
    pairs = [[share, k] for share in (0.4, 0.05, 1e-3, 1e-6, 1e-12) for k in (4, 5, 11, 60, 1017)]
    script = (
        "async (pairs) => { const s = await import('/statistics.js');"
        " return pairs.map(([p, k]) => s.studentQuantile(p, k)); }"
    )
    found = page.evaluate(script, pairs)
    assert found == pytest.approx([scipy.stats.t.isf(share, k) for share, k in pairs], rel=1e-9)


def in_both(page: Page, found: TrackReport, picks: dict[str, str] | None = None) -> tuple[dict, Ranking]:
    """Rank a report by the script of the pages, from the files of the site; the conditions are those of `picks`."""
    ranking, files = found.rankings[0], []
    for paired in (own for own in found.comparisons if own.id in ranking.yardsticks):
        own, numbers = paired.stored()
        where = places(own)
        index = {
            **own.model_dump(mode="json", exclude={"unit_sets", "clusters"}),
            "units": where[1],
            "unit_sets": [at.tolist() for at in where[0]],
            "clusters": [] if where[2] is None else coded(where[2])[0].tolist(),
            "weights": [] if (weights := weights_of(own, where)) is None else weights.tolist(),
            "starts": own.starts(),
            "tails": [],
        }
        rows = [[None if np.isnan(x) else float(x) for x in row] for row in numbers]
        files.append([index, rows])
    facts = {
        name: getattr(ranking, name)
        for name in ("attack", "attacker", "unaware", "undefended", "references", "alike", "broken_tail", "chosen")
    }
    facts |= {"control_tails": list(ranking.control_tails), "silent": dict(ranking.silent)}
    facts["places"] = {
        label: {"control": p.control, "able": p.able, "flagged": bool(p.flags), "complete": p.complete}
        for label, p in ranking.places.items()
    }
    on_site(page)
    script = (
        "async ([files, facts, picks]) => { const s = await import('/contest.js');"
        " const [first, ...others] = files.map(([index, rows]) => ({ index, vectors: rows.map((own) => own.map((x) =>"
        " x ?? NaN)), conditions: s.conditionsOf(index, facts, picks) }));"
        " return s.contest(first.index, first.vectors, facts, first.conditions, others); }"
    )
    facts["references"], facts["alike"] = list(facts["references"]), list(facts["alike"])
    return page.evaluate(script, [files, facts, picks or {}]), ranking


@pytest.mark.parametrize("seed", range(6))
def test_all_yardsticks_and_what_says_nothing_count_in_the_browser_as_in_python(page: Page, seed: int) -> None:
    """A further yardstick takes the crown away in some studies; an attack that failed withholds nothing."""
    rng = np.random.default_rng(seed)
    entries = ("harness/none", "a", "b", "c")
    conditions = tuple({"attack": f"t{i}", "attacker": ("fixed", "adaptive")[i % 2], "metric": "m"} for i in range(4))
    names = np.array([f"i{k}" for k in range(16)], dtype=object)
    sources = (np.array([f"photograph {k // 2}" for k in range(16)], dtype=object),) * 4
    ahead = np.array([0.0, 9.0, 2.0, 2.0])[:, None]
    first = [rng.normal(0, 1, (4, 16)) + ahead for _ in conditions]
    failed = [np.zeros((4, 16)) for _ in conditions]
    failed[1][1, ::3] = 1.0
    own = [np.where(gone == 1, np.nan, block).astype(np.float32) for gone, block in zip(failed, first, strict=True)]
    second = [(rng.normal(0, 1, (4, 16)) + ahead * (seed % 3) / 2).astype(np.float32) for _ in conditions]
    column = replace(rules(blocks()).protection, better="higher", key="d")
    measures, about = {"d": tuple(own), "failed": tuple(failed)}, {"photograph": sources}
    scores = Blocks(entries, conditions, (names,) * 4, measures, about)
    beside = Blocks(
        entries,
        tuple({**facets, "metric": "n"} for facets in conditions),
        (names,) * 4,
        {"d": tuple(second)},
        about,
    )
    wins = replace(column.wins, id="other")
    found = contest(
        replace(
            rules(scores, undefended="harness/none", controls={"harness/none": "undefended"}, gates=(), flags={}),
            protection=column,
            utility=Column("u", "U", "U.", "higher", value=lambda _: Value(value=1.0)),
            met="failed",
            yardsticks=(Yardstick(beside, replace(column, key="e", of="d", wins=wins)),),
        ),
        id="r",
        title="",
        caption="",
        entry="defense",
    )
    shown, ranking = in_both(page, found)
    assert {row["label"]: row["complete"] for row in shown["rows"]} == {
        label: place.complete for label, place in ranking.places.items()
    }
    assert (shown["winner"], shown["first"]) == (ranking.winner, ranking.may_be_best[0])
    assert set(shown["may"]) == set(ranking.may_be_best)
    assert bool(ranking.winner) == (seed % 3 > 0)
    alone, _ = in_both(page, replace(found, comparisons=found.comparisons[:1]))
    assert alone["winner"] == "a"


def iqa_report(seed: int, folder: Path) -> TrackReport:
    """Two attacks on images of photographs, five of each."""
    study = defended_scores(seed, gain=2.0 * seed)
    return worst.ranking(study, worst.rules(ResultQuery(Store(folder), []), study, 0.05), {})


def membership_report(seed: int, folder: Path) -> TrackReport:
    """Attacks are chosen on other rows; in one study a defense was not met by one of them."""
    query = Guesses(4, seed, splits=8, spread=0.1, evaluators=4, gap=(1.0, 0.0, 0.5, 0.4))
    if seed == 1:
        query.remove("defense = 'x/03' AND evaluator = 'x/02'")
    return guessed(query, 0.25 if seed == 2 else 0.01)


def reconstruction_report(seed: int, folder: Path) -> TrackReport:
    """Attacks that do not converge on some private images say nothing; one yardstick contradicts another."""
    rng = np.random.default_rng(seed)
    psnr = np.array([[24.0], [9.0], [18.0 - 8 * seed]]) + rng.normal(0, 1, (3, 30))
    votes = rng.random((3, 30)) < np.array([[1.0], [0.5 * seed], [0.1]])
    return reconstructed(psnr, votes, rng.random((3, 30)) < np.array([[1.0], [0.9], [0.8]]))


def perceptual_report(seed: int, folder: Path) -> TrackReport:
    """Choices of families of unequal size, some of which an attack turns; one metric met no attack."""
    rng = np.random.default_rng(seed)
    right = {f"harness/m{i}": rng.random(90) < 1 - 0.1 * i for i in range(5)}
    attacked = {label: own & (rng.random(90) < 0.8) for label, own in right.items() if label != "harness/m1"}
    return choices_of(right, attacked, {"harness/m4": "a guess"}, judges=5 * (seed % 2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("made", [iqa_report, membership_report, reconstruction_report, perceptual_report])
def test_reports_of_all_tracks_are_ranked_by_the_browser_as_by_python(
    page: Page, tmp_path: Path, made: Callable[[int, Path], TrackReport], seed: int
) -> None:
    report = made(seed, tmp_path)
    shown, ranking = in_both(page, report)
    table = next(own for own in report.tables if own.id == ranking.table)
    order = [row.label for row in table.rows if row.label in {own["label"] for own in shown["rows"]}]
    assert [row["label"] for row in shown["rows"]] == order
    assert len(order) == len(table.rows)
    assert (shown["winner"], shown["may"]) == (ranking.winner, list(ranking.may_be_best))
    for row, own in zip([row for row in table.rows if row.label in order], shown["rows"], strict=True):
        place = ranking.places[row.label]
        assert own["complete"] == place.complete
        assert own["broken"] == (place.broken.attack if place.broken else "")
        for key in ("worst", "unaware", "aware"):
            assert_close((own[key] or {}).get("value"), row.values[key].value)
        for key in ("rank", "behind"):
            for end in ("value", "low", "high"):
                assert_close((own[key] or {}).get(end), getattr(row.values[key], end))
        if not ranking.chosen:
            assert own["coverage"] == pytest.approx(row.values["coverage"].value)
            assert own["broken_by"] == pytest.approx(dict(place.broken_by))


def assert_close(found: float | None, wanted: float | None) -> None:
    """Assert that two numbers are equal but for the rounding of scores to 32 bits."""
    assert (found is None) == (wanted is None)
    assert wanted is None or found == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_choices_of_families_that_weigh_the_same_are_ranked_as_in_python(page: Page) -> None:
    known = np.ones(90, dtype=bool)
    shown, ranking = in_both(
        page,
        choices_of(
            {"harness/knows": known, "harness/turns": np.arange(90) % 10 > 0, "harness/guesses": guesses(1)},
            {"harness/knows": np.arange(90) % 9 > 0, "harness/turns": np.arange(90) % 3 > 0, "harness/guesses": known},
            {"harness/guesses": "a guess"},
        ),
    )
    assert (shown["winner"], set(shown["may"])) == (ranking.winner, set(ranking.may_be_best))
    assert {row["label"] for row in shown["rows"] if row["complete"]} == {
        label for label, place in ranking.places.items() if place.complete
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
    assert row_of(page, FLIP).locator(".badge.first").inner_text() == "winner"
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
    """Questions that readers come with, each answered from the home page by at most two clicks."""

    def test_which_defense_if_the_attacker_knows_it(self, page: Page) -> None:
        settled(page, "index.html")
        asked = page.locator(".asked section", has_text="JPEG holds D at")
        asked.get_by_role("link", name="See ranking").click()
        page.get_by_role("checkbox").first.wait_for()
        page.get_by_label("Knows it", exact=True).check(force=True)
        assert result(page)["winner"] == JPEG
        assert (
            page.locator(".verdict").inner_text().startswith("With an attacker who knows the defense: JPEG holds D, %")
        )

    def test_is_one_better_than_another(self, page: Page) -> None:
        settled(page, "index.html")
        page.get_by_role("link", name="Compare the best two (JPEG and Flip)").click()
        self.compared(page, JPEG, FLIP, {})

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
        aware = scores.part(chosen(scores, picks))
        worst = rules(aware).worst
        means = {e: -worst[aware.entries.index(e)].mean() for e in (first, second)}
        told = json.loads(row.first.get_attribute("data-raw"))
        a, b = json.loads(row.first.get_attribute("data-pair"))
        assert told["difference"]["value"] == pytest.approx(means[b] - means[a], rel=1e-5)

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
        assert row.locator(".by").inner_text() == f"I-FGSM, {share:.0%}"

    def test_a_difference_that_may_be_chance_is_not_called_broken(self) -> None:
        """With four photographs there is no interval, and nothing is called broken."""
        made, few = report(), report(fewer(blocks()))
        found = []
        for own in (made, few):
            view = RankingView(board(rankings=own.rankings), own.rankings[0], own.tables[0], None, (), "")
            found.append([row.row.label for row in view.rows if any(b.kind == "broken" for b in row.badges)])
        assert found == [[FLIP], []]

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
    assert len(heads) == 5
    assert "D, % of the range" in heads[2]


class Downloaded:
    """A comparison as a reader has it: an index and a file of float32 for each entry."""

    def __init__(self, folder: Path, name: str) -> None:
        self.index = json.loads((folder / name).read_text())
        rows = [
            np.frombuffer((folder / name).parent.joinpath(file).read_bytes(), "<f4") for file in self.index["files"]
        ]
        self.rows = dict(zip(self.index["entries"], rows, strict=True))

    def worst(self, label: str) -> dict[int, float]:
        """Return of each unit the largest D, the mean over metrics; written anew, one number after the other."""
        found: dict[int, dict[tuple, float]] = {}
        for c, condition in enumerate(self.index["conditions"]):
            group = (condition["facets"]["metric"], condition["facets"]["dataset"])
            for i, unit in enumerate(self.index["unit_sets"][condition["units"]]):
                d = float(self.rows[label][self.index["starts"][c] + i])
                if not np.isnan(d):
                    own = found.setdefault(unit, {})
                    own[group] = max(own.get(group, -np.inf), d)
        return {unit: float(np.mean(list(own.values()))) for unit, own in found.items()}


def test_a_reader_who_recomputes_the_headline_from_the_files_gets_the_same_sentence(built: Path) -> None:
    """The winner, its numbers and the test against the control, from the downloaded files alone."""
    results = json.loads((built / "data" / "results.json").read_text())
    (board,) = [own for own in results["boards"] if own["rankings"]]
    (ranking,) = board["rankings"]
    data = Downloaded(built / "data" / "contest", f"{ranking['comparison']}.vectors.json")
    (table,) = [own for own in board["tables"] if own["id"] == ranking["table"]]
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
    assert scipy.stats.ttest_1samp(gains, 0).confidence_interval(1 - data.index["tail"]).low > 0
    text = CLAIM.format(
        winner=best,
        protection=f"{np.mean(list(worst[best].values())):.2f}",
        without=f"{np.mean(list(worst[NONE].values())):.2f}",
        utility=f"{utility[best]:.3f}",
        plain=f"{utility[NONE]:.3f}",
    )
    assert ranking["claim"] == f"{text} Proxies: {PROXIES[0]}."
    home = (built / "index.html").read_text()
    assert CLAIM.format(
        winner="JPEG",
        protection=f"{np.mean(list(worst[best].values())):.2f}",
        without=f"{np.mean(list(worst[NONE].values())):.2f}",
        utility=f"{utility[best]:.3f}",
        plain=f"{utility[NONE]:.3f}",
    ) in words_of(home)


def test_small_drawings_show_the_worst_case_of_each_metric() -> None:
    scores = blocks()
    made = report(scores)
    comparison, numbers = made.comparisons[0].stored()
    for metric in METRICS:
        kept = scores.where(metric=metric)
        found = worst_case(comparison, numbers, made.rankings[0], kept)
        wanted = contest(
            replace(rules(scores), scores=scores.part(kept)), id="c", title="", caption="", entry="defense"
        )
        values = {row.label: row.values["worst"].value for row in wanted.tables[0].rows}
        assert dict(zip(comparison.entries, found, strict=True)) == pytest.approx(values, rel=1e-12)


def test_the_fixture_is_what_it_says(built: Path) -> None:
    places, rows = report().rankings[0].places, report().tables[0].rows
    assert {row.label for row in rows} == set(LEVELS)
    assert not places[PURIFIER].complete
    assert places[MEDIAN].gate == "fails"

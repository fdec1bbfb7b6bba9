"""What the first screen of the home page and of a track says, and that it comes from the leaderboards."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.conftest import few_resamples

from imharness.documents.stored import write_leaderboard
from imharness.leaderboard import Blocks
from imharness.results.store import Store
from imharness_leaderboard.adaptive_effect import APART, _spread, effect_of, slope_of
from imharness_leaderboard.attack_heatmap import heat_of
from imharness_leaderboard.drawing import width_of
from imharness_leaderboard.headline import Lead, first_of, lead_of
from imharness_leaderboard.names import attack_names, display_names, in_names
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.scores import Scores

from .browsing import opened, served, settled, watched
from .conftest import sample_leaderboard
from .contested import (
    ATTACKS,
    FLIP,
    JPEG,
    MEDIAN,
    METRICS,
    NOISE,
    NONE,
    PROXIES,
    PURIFIER,
    blocks,
    crowd,
    crowd_report,
    report,
    without_pictures,
)

WIDTHS = (1440, 1280, 768, 390)


def weak(scores: Blocks) -> Blocks:
    """Return the same scores, but attackers who know JPEG or the median move them by as much as without a defense."""
    blocks, plain = [], scores.entries.index(NONE)
    for facets, block in zip(scores.conditions, scores.values["d"], strict=True):
        weakened = block.copy()
        if facets["attacker"] == "adaptive":
            for label in (JPEG, MEDIAN):
                weakened[scores.entries.index(label)] = block[plain] + 0.1
        blocks.append(weakened)
    return replace(scores, values={"d": tuple(blocks)})


def names_of(contest_report) -> dict[str, str]:
    return display_names([row.label for row in contest_report.tables[0].rows])


def means(scores: Blocks, attacker: str) -> dict[str, float]:
    """Return the mean of each entry over all conditions with an attacker, computed number by number."""
    blocks = [b for c, b in zip(scores.conditions, scores.values["d"], strict=True) if c["attacker"] == attacker]
    return {label: float(np.mean([b[i] for b in blocks])) for i, label in enumerate(scores.entries)}


class TestWhatLeads:
    def test_entries_that_look_strong_and_fail_are_counted_as_from_the_raw_scores(self) -> None:
        scores = weak(blocks())
        original = report(scores)
        lead = lead_of(original.rankings[0], original.tables[0].entry, names_of(original))
        before, after = means(scores, "fixed"), means(scores, "adaptive")
        seems = {label: before[NONE] - before[label] for label in (FLIP, JPEG, MEDIAN, NOISE)}
        strong = [label for label, gain in seems.items() if gain > 3]
        failed = [label for label in strong if after[NONE] - after[label] < 0.5 * seems[label]]
        assert (lead.kind, lead.count, len(strong)) == ("fails", len(failed), 4) == ("fails", 3, 4)
        assert lead.title == "Defenses that look strong often fail once the attacker knows them"

    def test_a_winner_leads_where_few_fail(self) -> None:
        original = report()
        lead = lead_of(original.rankings[0], original.tables[0].entry, names_of(original))
        assert (lead.kind, original.rankings[0].winner) == ("wins", JPEG)
        assert lead.title == "JPEG holds, even against attackers who know it"

    def test_without_findings_nothing_is_claimed(self) -> None:
        original = report()
        ranking = original.rankings[0].model_copy(update={"findings": (), "winner": ""})
        lead = lead_of(ranking, original.tables[0].entry, names_of(original))
        assert (lead.kind, lead.title) == ("open", "No defense is shown yet to be better than no defense")

    def test_the_first_rule_then_the_most_entries_give_the_title(self) -> None:
        def lead(kind, count: int) -> Lead:
            return Lead(kind, count, "")

        assert first_of([lead("better", 9), lead("fails", 2), lead("fails", 5), lead("wins", 1)]) == 2
        assert first_of([lead("open", 0), lead("costs", 3), lead("moves", 1)]) == 2


class TestTheDrawing:
    def test_the_attack_that_gains_most_is_drawn_with_the_means_of_its_scores(self) -> None:
        scores = blocks()
        original = report(scores)
        comparison, numbers = original.comparisons[0].stored()
        stored_scores = Scores(sample_leaderboard(), comparison, numbers)
        facts = effect_of(stored_scores, original.rankings[0])
        assert facts is not None

        def mean(label: str, attack: str, attacker: str) -> float:
            blocks = scores.subset(scores.where(attack=attack, attacker=attacker)).values["d"]
            return float(np.mean([block[scores.entries.index(label)] for block in blocks]))

        able = [label for label in facts.pairs if label != NONE]
        gains = {a: np.mean([mean(e, a, "adaptive") - mean(e, a, "fixed") for e in facts.pairs]) for a in ATTACKS}
        assert facts.attack == max(gains, key=lambda attack: gains[attack])
        for label, pair in facts.pairs.items():
            for interval, attacker in zip(pair, ("fixed", "adaptive"), strict=True):
                assert interval.value == pytest.approx(mean(label, facts.attack, attacker), rel=1e-6)
                assert interval.low < interval.value < interval.high
        moves = {label: facts.pairs[label][1].value - facts.pairs[label][0].value for label in able}
        kinds = dict(facts.lines)
        assert kinds[NONE] == "undefended"
        assert kinds[max(moves, key=lambda label: moves[label])] == "moves"
        drawn = slope_of(facts, comparison, names_of(original), "defense", 760, 420)
        assert list(drawn.data["defense"]) == list(facts.pairs)
        first = next(label for label, kind in facts.lines if kind == "moves")
        bold = replace(
            facts, lines=[(label, kind if label in (NONE, first) else "holds") for label, kind in facts.lines]
        )
        long = dict.fromkeys(facts.pairs, "a defense with a long name")
        narrow = slope_of(bold, comparison, long, "defense", 340, 420)
        for line in narrow.lines:
            assert narrow.x[1] + 30 + width_of(f"{line.after} {line.name}", bold=line.kind == "holds") <= narrow.width
        assert re.search(r"Flip: D.*, \d.* while .* does not know it, \d.* once it does; \d.* without", drawn.title)

    @pytest.mark.parametrize("seed", range(20))
    def test_labels_are_apart_and_stay_in_the_frame(self, seed: int) -> None:
        draw = random.Random(seed)
        wanted = [draw.uniform(20, 300) for _ in range(8)]
        positions = _spread(wanted, 20, 300)
        order = sorted(positions)
        assert all(b - a >= APART - 0.11 for a, b in pairwise(order))
        assert order[0] >= 20
        assert order[-1] <= 300
        assert sorted(range(8), key=lambda i: wanted[i]) == sorted(range(8), key=lambda i: positions[i])

    def test_the_map_of_attacks_has_the_means_of_the_scores(self) -> None:
        scores = blocks()
        original = report(scores)
        comparison, numbers = original.comparisons[0].stored()
        heat = heat_of(Scores(sample_leaderboard(), comparison, numbers), original.rankings[0], names_of(original))
        assert heat is not None
        column = [(c.name, c.aware) for c in heat.columns].index(("I-FGSM", True))
        tasks = dict(heat.rows)[FLIP]
        chosen_blocks = scores.subset(scores.where(attack=ATTACKS[0], attacker="adaptive")).values["d"]
        assert tasks[column].text == f"{np.mean([b[scores.entries.index(FLIP)] for b in chosen_blocks]):.2f}"
        steps = [task.step for _, line in heat.rows for task in line if task.text]
        assert (min(steps), max(steps)) == (0, 10)
        assert heat.both
        assert heat.title == "I-FGSM that knows the entry does most, on average over all rows"

    def test_the_map_says_who_knows_the_entry_only_where_an_attack_is_seen_with_and_without_that(self) -> None:
        """Where no attacker attacks without knowing the entry, all attacks know it, and the map need not say so."""
        scores = blocks()
        conditions = tuple(
            {**condition, "attack": condition["attack"] if condition["attacker"] == "adaptive" else "none"}
            for condition in scores.conditions
        )
        original = report(replace(scores, conditions=conditions))
        comparison, numbers = original.comparisons[0].stored()
        heat = heat_of(Scores(sample_leaderboard(), comparison, numbers), original.rankings[0], names_of(original))
        assert heat is not None
        assert {column.aware for column in heat.columns} == {True, False}
        assert not heat.both
        assert "knows" not in heat.title


def test_no_attack_is_called_so() -> None:
    assert attack_names(["none", "harness/square"]) == {"none": "no attack", "harness/square": "Square"}


def test_a_part_that_most_labels_share_is_not_repeated() -> None:
    rows = ["harness/lenet[channels=16] + harness/mixup", "harness/lenet[channels=16] + harness/none", "mean image"]
    names = display_names(rows)
    assert names == {rows[0]: "Mixup", rows[1]: "No defense", rows[2]: "mean image"}
    assert in_names(f"{rows[0]} beats {rows[2]}.", names) == "Mixup beats mean image."


@pytest.mark.parametrize("width", WIDTHS)
def test_home_says_the_finding_first_and_fits_every_width(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    settled(page, "index.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").bounding_box()["y"] < 200
    assert page.locator(".slope-chart:visible").count() == 1
    boxes = page.locator(".slope-chart:visible text").evaluate_all(
        "(all) => all.map((one) => { const b = one.getBoundingClientRect(); return [b.left, b.right]; })"
    )
    assert all(left_edge >= 0 and right <= width for left_edge, right in boxes)
    if width >= 1280:
        tops = page.locator("header nav :is(a, button)").evaluate_all(
            "(all) => all.map((one) => { const b = one.getBoundingClientRect(); return (b.top + b.bottom) / 2; })"
        )
        assert max(tops) - min(tops) < 6, "the header is one line"


def test_home_shows_what_the_data_are_when_asked(page: Page) -> None:
    settled(page, "index.html")
    strip = page.locator(".data-strip")
    assert strip.inner_text() == (
        "Demo: stand-in data, not citable, in Contest track; citable: Evil track and Plain track. Why?"
    )
    strip.locator("summary").click()
    assert PROXIES[0] in strip.inner_text()


def test_home_without_scripts_has_the_drawing_the_questions_and_its_numbers(
    browser: Browser, address: str, built: Path
) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=address)
    opened_page = context.new_page()
    opened_page.goto("index.html")
    assert opened_page.locator(".slope-chart:visible .line").count() >= 3
    section = opened_page.locator(".asked section", has=opened_page.get_by_role("link", name="See ranking"))
    counts = section.locator(".tiers b").all_inner_texts()
    findings = report().rankings[0].findings
    assert counts == [str(sum(finding.tier == tier for finding in findings)) for tier in ("shown", "ruled out", "open")]
    context.close()
    lines = (built / "data" / "contest" / "slope.csv").read_text().splitlines()
    assert lines[0].startswith("defense,attack,")
    assert any(line.startswith(f'"{FLIP}"' if "," in FLIP else FLIP) for line in lines[1:])


class TestTheRankingIsAChart:
    @pytest.mark.parametrize("width", WIDTHS)
    def test_it_fits_every_width_and_starts_high_up(self, page: Page, width: int) -> None:
        page.set_viewport_size({"width": width, "height": 900})
        settled(page, "contest.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("tr.entry .lane").first.bounding_box()["y"] < 700

    def test_those_that_may_win_are_on_top_and_controls_below(self, page: Page) -> None:
        settled(page, "contest.html")
        groups = page.locator("tr.entry").evaluate_all("(rows) => rows.map((row) => row.dataset.group)")
        order = ["eligible", "worse", "barred", "control"]
        assert groups == sorted(groups, key=order.index)
        assert (groups[0], groups[-1]) == ("eligible", "control")
        ranks = page.locator("tr.entry td.rank").evaluate_all(
            "(all) => all.map((one) => one.querySelector('strong')?.textContent ?? '')"
        )
        assert ranks == ["1", "2", "", "", "", ""], "who cannot win has no number, and its reason in words"
        reasons = {
            row.get_attribute("data-label"): row.locator(".reason").inner_text()
            for row in page.locator("tr.entry").all()
        }
        assert reasons[MEDIAN] == "costs too much"
        assert reasons[PURIFIER] == "lacks settings that others have"
        assert reasons[NOISE].startswith("is flagged")
        assert reasons[JPEG] == ""

    def test_dots_stand_where_their_numbers_are_and_controls_are_lines(self, page: Page) -> None:
        settled(page, "contest.html")
        drawn = page.locator("tr.entry").evaluate_all(
            "(rows) => rows.map((row) => [row.dataset.label, Number(row.querySelector('.dot').getAttribute('cx')),"
            " Number(row.querySelector('.hollow').getAttribute('cx')),"
            " Number(document.querySelector(row.querySelector('.lane use').getAttribute('href')).querySelector("
            "'.plain').getAttribute('x1'))])"
        )
        values = {row.label: row.values for row in report().tables[0].rows}
        numbers = [values[label]["worst"].value for label, *_ in drawn]
        places = [x for _, x, _, _ in drawn]
        slope, start = np.polyfit(numbers, places, 1)
        assert places == pytest.approx([slope * v + start for v in numbers], abs=0.2)
        hollow = [slope * values[label]["unaware"].value + start for label, *_ in drawn]
        assert [x for _, _, x, _ in drawn] == pytest.approx(hollow, abs=0.3)
        plain = slope * values[NONE]["worst"].value + start
        assert [x for *_, x in drawn] == pytest.approx([plain] * len(drawn), abs=0.2)

    def test_sort_filter_and_picks_are_kept_in_the_address(self, page: Page) -> None:
        settled(page, "contest.html")
        page.locator("thead").get_by_role("button", name="D, % of the range").or_(
            page.locator("th[data-sort=worst] button")
        ).first.click()
        rows = page.locator("tr.entry:visible")
        values = [float(v) for v in rows.locator(".value").all_inner_texts()]
        assert values == sorted(values)
        page.get_by_label("Filter").fill("j")
        page.get_by_label("Filter").fill("jpeg")
        expect(rows).to_have_count(1)
        rows.get_by_role("checkbox").check()
        link = page.url
        settled(page, "about:blank")
        settled(page, link)
        expect(rows).to_have_count(1)
        assert rows.get_by_role("checkbox").is_checked()
        assert page.locator("th[data-sort=worst]").get_attribute("aria-sort") == "ascending"
        assert "JPEG" in page.locator(".picked").inner_text()

    def test_a_row_and_its_mark_light_up_together(self, page: Page) -> None:
        settled(page, "contest.html")
        page.locator(f"tr.entry[data-label='{FLIP}']").hover()
        assert page.locator(".front .mark.on").get_attribute("data-label") == FLIP
        page.locator(f".front .mark[data-label='{MEDIAN}']").hover()
        assert page.locator("tr.entry.on").get_attribute("data-label") == MEDIAN

    def test_protection_against_utility_follows_what_is_picked(self, page: Page) -> None:
        settled(page, f"contest.html?attacker=unaware&metric={METRICS[0]}")
        page.locator("table.ranking[data-result]").wait_for()
        drawn = page.locator(".front circle.mark").evaluate_all(
            "(all) => all.map((one) => [one.dataset.label, Number(one.getAttribute('cy'))])"
        )
        values = page.locator("tr.entry").evaluate_all(
            "(rows) => rows.map((row) => [row.dataset.label, Number(row.querySelector('.value').textContent)])"
        )
        worst = dict(values)
        numbers, places = [worst[label] for label, _ in drawn], [y for _, y in drawn]
        slope, start = np.polyfit(numbers, places, 1)
        assert slope > 0, "less harm is above"
        assert places == pytest.approx([slope * v + start for v in numbers], abs=1.5)

    def test_numbers_of_the_map_do_not_overlap(self, page: Page) -> None:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            settled(page, "contest.html")
            over = page.locator(".heat-map td").evaluate_all(
                "(tasks) => tasks.filter((task) => task.scrollWidth > task.clientWidth).length"
            )
            assert over == 0
        assert page.locator(".heat-map td").count() >= 20

    def test_details_are_fetched_when_opened_and_pictures_are_few(self, page: Page, built: Path) -> None:
        assert "Reproduce this row" not in (built / "contest.html").read_text()
        for name in ("contest.html", "acme--evil.html", "plain.html"):
            assert len(re.findall(r"<figure><h3>|in-light", (built / name).read_text())) <= 5
        settled(page, "contest.html")
        page.locator(f"tr.entry[data-label='{JPEG}']").get_by_role("button", name="details").click()
        page.locator(".more-row h3", has_text="Reproduce this row").wait_for()
        assert page.locator(".more-row img").first.evaluate("(image) => image.src").startswith("http")

    def test_study_tables_are_a_page_of_their_own(self, page: Page) -> None:
        settled(page, "contest.html")
        assert page.locator("table[data-table]").count() == 0
        page.get_by_role("link", name="Study tables").first.click()
        page.get_by_text("Mean over attacks, as in the paper", exact=True).wait_for()


COPIES = 70


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site whose ranking has more rows than a page shows."""
    folder = tmp_path_factory.mktemp("crowd")
    with few_resamples():
        store, original = Store(folder / "store"), crowd_report(crowd(COPIES))
        stored = [comparison.stored() for comparison in original.comparisons]
    facts = {"tables": tuple(original.tables), "rankings": tuple(original.rankings), "charts": ()}
    leaderboard = sample_leaderboard(
        comparisons=tuple(c for c, _ in stored), track="harness/crowd", title="Crowd", **facts
    )
    write_leaderboard(store, leaderboard, {c.id: numbers for c, numbers in stored})
    with without_pictures():
        build_site(folder / "store", folder / "site")
    with served(folder / "site") as site_address:
        yield site_address


def test_fifty_rows_are_shown_and_the_page_is_kept_by_back(browser: Browser, crowded: str) -> None:
    for opened_page in opened(browser, crowded):
        for page in watched(opened_page, crowded):
            settled(page, "crowd.html")
            rows = page.locator("tr.entry:visible")
            expect(rows).to_have_count(50)
            page.get_by_role("button", name="Next").click()
            expect(rows).to_have_count(COPIES + 6 - 50)
            assert "page=2" in page.url
            page.go_back()
            expect(rows).to_have_count(50)


def test_without_scripts_all_rows_are_there(browser: Browser, crowded: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=crowded)
    opened_page = context.new_page()
    opened_page.goto("crowd.html")
    assert opened_page.locator("tr.entry:visible").count() == COPIES + 6
    assert unescape(opened_page.locator("h1").inner_text()) == "Which defense protects best when the attacker knows it?"
    context.close()

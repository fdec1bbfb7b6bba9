"""The compare page: its filter, means over what entries share, and links."""

import re
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.truth.test_one_verdict import study
from tests.truth.test_power import normal

from imharness.documents.pairwise import pairwise_intervals
from imharness_leaderboard.numbers import stated

from .browsing import read, settled
from .conftest import ENTRIES, EVIL, paired

FILE = "data/acme--evil/wins.vectors.json"


def address(*labels: str, **more: str) -> str:
    return "compare.html#" + urlencode([("c", FILE), *(("e", label) for label in labels), *more.items()])


def picked(page: Page) -> list[str]:
    page.locator(".groups li").first.wait_for()
    read(page)
    boxes = page.locator("#entries label:has(input:checked)")
    return sorted(text.strip() for text in boxes.all_inner_texts())


def means(page: Page) -> dict[str, float]:
    items = page.locator(".groups [data-mean]")
    return {
        items.nth(i).get_attribute("data-label"): float(items.nth(i).get_attribute("data-mean"))
        for i in range(items.count())
    }


def wanted(labels: tuple[str, ...], selected: list[int] | None = None) -> tuple[dict[str, float], int]:
    """Return means over the units that all entries have, each unit once, and from how many conditions these come."""
    comparison, numbers = paired().stored()
    starts, rows = comparison.starts(), [comparison.entries.index(label) for label in labels]
    sums: dict[str, list[np.ndarray]] = {}
    conditions = 0
    for c in range(len(comparison.conditions)) if selected is None else selected:
        block = numbers[rows, starts[c] : starts[c + 1]].astype(float)
        common = ~np.isnan(block).any(axis=0)
        conditions += bool(common.any())
        for unit in np.flatnonzero(common):
            name = comparison.unit_sets[comparison.conditions[c].units][unit]
            sums.setdefault(name, []).append(block[:, unit])
    mean = np.mean([np.mean(scores, axis=0) for scores in sums.values()], axis=0)
    return dict(zip(labels, mean, strict=True)), conditions


def test_the_filter_hides_entries_that_are_not_ticked(page: Page) -> None:
    settled(page, address(*ENTRIES[:2]))
    page.get_by_label("Find").fill("radius")
    assert page.locator("#entries label:visible").all_inner_texts() == [" acme/blur", " acme/blur[radius=2]"]
    page.get_by_label("Find").fill("")
    assert page.locator("#entries label:visible").count() == len(ENTRIES)


def test_the_page_says_of_a_pair_what_the_ranking_says_of_it(page: Page) -> None:
    """The page once said that nothing separates two entries where the ranking says the opposite.

    The ranking asks narrower questions than who is better among all pairs, and shows more. Nobody has asked them of a
    part of the conditions, so there the comparison of all pairs decides.
    """
    settled(page, "compare.html")
    script = (
        "async (given) => { const s = await import('/statistics.js'); return given.map((one) => s.judged(...one)); }"
    )
    silent = 0
    for seed in range(30):
        report = study(seed, normal)
        (ranking,), (comparison, numbers) = report.rankings, report.comparisons[0].stored()
        intervals, index = pairwise_intervals(comparison, numbers), {"stated": stated(ranking)}
        pairs = [(i, j) for i in range(len(comparison.entries)) for j in range(len(comparison.entries)) if i != j]
        questions, wanted_labels = [], []
        for i, j in pairs:
            labels = first, second = comparison.entries[i], comparison.entries[j]
            ends = {key: float(getattr(intervals, key)[i, j]) for key in ("value", "low", "high")}
            among_all = first if intervals.better[i, j] else second if intervals.better[j, i] else ""
            verdict = ranking.stated(*labels)
            silent += verdict not in (None, among_all)
            questions += [[index, *labels, ends, False], [index, *labels, ends, True]]
            wanted_labels += [among_all if verdict is None else verdict, among_all]
        answers = page.evaluate(script, questions)
        better = [
            {1: first, 0: "", -1: second}[a["verdict"]]
            for (_, first, second, *_), a in zip(questions, answers, strict=True)
        ]
        assert better == wanted_labels, seed
        for answer in answers:
            low, high = (answer["difference"][end] for end in ("low", "high"))
            assert {1: low >= 0, 0: low <= 0 <= high, -1: high <= 0}[answer["verdict"]]
    assert silent > 0


@pytest.mark.parametrize("labels", [ENTRIES[:3], (ENTRIES[0], EVIL), ENTRIES])
def test_means_are_over_what_all_picked_entries_share(page: Page, labels: tuple[str, ...]) -> None:
    settled(page, address(*labels))
    assert picked(page) == sorted(labels)
    expected, conditions = wanted(labels)
    assert conditions == (2 if EVIL in labels else 4)
    assert means(page) == pytest.approx(expected, rel=1e-9)
    assert f"{conditions} of 4 chosen conditions, 15 images" in page.locator("#basis").inner_text()


def test_entries_that_share_nothing_have_no_means(page: Page) -> None:
    settled(page, address(ENTRIES[0], EVIL, **{"without.metric": "m"}))
    page.get_by_text("have no image in common").wait_for()
    assert page.locator(".groups").count() == 0
    assert "no image in common" in page.locator("#result tr[data-pair]").inner_text()


def test_a_link_pasted_into_the_open_page_is_followed(page: Page) -> None:
    settled(page, address(*ENTRIES[:2]))
    assert picked(page) == sorted(ENTRIES[:2])
    page.evaluate("(address) => { location.href = address; }", address(*ENTRIES[1:3], **{"without.metric": "n"}))
    page.locator("#basis", has_text=re.compile("2 of 2 chosen conditions")).wait_for()
    assert picked(page) == sorted(ENTRIES[1:3])
    comparison, _ = paired().stored()
    indices = [c for c, condition in enumerate(comparison.conditions) if condition.facets["metric"] == "m"]
    assert means(page) == pytest.approx(wanted(ENTRIES[1:3], indices)[0], rel=1e-9)


def test_opened_from_a_file_a_page_says_what_is_missing_and_offers_nothing_that_does_not_work(
    browser: Browser, built: Path, page: Page
) -> None:
    disk = browser.new_page()
    for name in ("compare.html", "contest.html"):
        disk.goto((built / name).as_uri())
        expect(disk.locator(".needs-server")).to_be_visible()
        expect(disk.locator(".needs-server")).to_contain_text("harness site serve")
        for dead in (".bar", "[data-search]", "#compare"):
            expect(disk.locator(f"{dead}:visible")).to_have_count(0)
        settled(page, name)
        expect(page.locator(".needs-server")).to_be_hidden()
    disk.close()

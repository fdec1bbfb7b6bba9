"""Findings on pages: at most five a tier, grouped by kind, and all of them on a page of their own."""

import re
from pathlib import Path

from playwright.sync_api import Page

from imharness.documents.findings import LEADING, Finding
from imharness_leaderboard.finding_groups import KINDS, leading, tiers_of

from .browsing import settled
from .contested import report


def findings(*kinds: str) -> list[Finding]:
    return [
        Finding(tier="shown", kind=kind, entry="a", measure="m", decimals=1, unit="image", text=f"{kind} {i}.")
        for i, kind in enumerate(kinds)
    ]


def test_of_many_the_first_of_each_kind_come_first_and_stay_in_their_order() -> None:
    many = findings(*["better"] * 6, *["moves"] * 3, "broken")
    assert [finding.text for finding in leading(many, 5)] == [
        "better 0.",
        "better 1.",
        "moves 6.",
        "moves 7.",
        "broken 9.",
    ]
    assert leading(many, 20) == many


def test_sentences_are_grouped_by_what_they_are_about() -> None:
    sentences = tuple(findings("better", "moves", "better", *["broken"] * 5))
    ranking = report().rankings[0].model_copy(update={"findings": sentences, "baseline_name": "L2"})
    (tier,) = tiers_of(ranking, {})
    assert (tier.tier, tier.sentences, tier.more) == ("shown", 8, 3)
    assert [about for about, _ in tier.groups] == ["Better than L2", KINDS["moves"], KINDS["broken"]]
    assert dict(tier.groups)["Better than L2"] == ["better 0.", "better 2."]


def test_a_page_shows_five_of_a_tier_and_leads_to_all_of_them(page: Page, built: Path) -> None:
    settled(page, "contest.html")
    for tier in page.locator("details.findings").all():
        tier.evaluate("(details) => { details.open = true; }")
        assert 1 <= tier.locator("li").count() <= LEADING
    text = (built / "contest" / "findings.html").read_text()
    assert len(re.findall("<li>", text.partition("<main")[2].partition("</main>")[0])) == len(
        report().rankings[0].findings
    )

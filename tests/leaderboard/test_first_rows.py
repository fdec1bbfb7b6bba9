"""Rows of tiles on the home page, the definition under a title, the pair that Compare opens with, and fixed bars."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from imharness.documents.rankings import Ranking
from imharness_leaderboard import home
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.texts import glossary

from .browsing import settled
from .conftest import sample_leaderboard
from .contested import FLIP, JPEG, MEDIAN, NOISE, NONE, PURIFIER, report

COVERED = """() => {
  const [contents, bar] = [".contents.stays", ".bar"].map((name) => document.querySelector(name));
  const end = bar.getBoundingClientRect().bottom, seen = [];
  for (let y = 0; y < end; y += 0.5) {
    for (const x of [30, innerWidth / 2, innerWidth - 60]) {
      const on = document.elementFromPoint(x, y);
      if (on && !contents.contains(on) && !bar.contains(on)) seen.push(`${x}, ${y}: ${on.tagName}`);
    }
  }
  return seen;
}"""
"""Points above the lower edge of the fixed bars at which something else is on top."""


def view_of(**changes: object) -> RankingView:
    original = report()
    ranking = original.rankings[0].model_copy(update=changes)
    return RankingView(sample_leaderboard(tables=tuple(original.tables)), ranking, original.tables[0], None, (), "")


def test_a_tile_has_three_rows_first_those_that_may_win_and_no_control() -> None:
    rows = home.first_rows(view_of())
    assert [row.row.label for row in rows[:2]] == [JPEG, FLIP]
    assert len(rows) == home.ROWS
    assert rows[2].row.label in (MEDIAN, NOISE, PURIFIER)
    assert rows[2].reason


def test_a_winner_is_shown_wherever_it_is() -> None:
    open_one, won = view_of(outcome="bound", winner="", claim="No winner."), view_of()
    assert won.ranking.outcome == "winner"
    tile = home.home_of([won.leaderboard], {won.leaderboard.track: [open_one, won]}).asked[0]
    assert tile.view is won
    assert tile.others == [open_one]


def test_home_shows_question_headline_and_three_rows_of_each_ranking(page: Page) -> None:
    settled(page, "index.html")
    tile = page.locator(".asked section", has=page.get_by_role("link", name="See ranking"))
    assert tile.locator("h2").inner_text() == "Which defense protects best when the attacker knows it?"
    assert tile.locator(".claim").inner_text().startswith("JPEG")
    rows = tile.locator(".first-rows tr")
    assert rows.count() == 3
    assert [text.strip("\n.") for text in rows.locator(".rank").all_inner_texts()][:2] == ["1", "2"]
    dots = rows.locator(".dot").evaluate_all("(all) => all.map((one) => Number(one.getAttribute('cx')))")
    values = [float(text) for text in rows.locator(".value").all_inner_texts()]
    assert sorted(dots) == [dots[values.index(value)] for value in sorted(values)], "dots stand in the order of numbers"


def test_home_of_a_ranking_without_entries_that_may_win_names_the_reason() -> None:
    places = {
        label: position.model_copy(update={"gate": "fails"}) for label, position in report().rankings[0].places.items()
    }
    rows = home.first_rows(view_of(places=places))
    assert rows
    assert all(row.reason for row in rows)


def test_the_measure_is_defined_under_the_title_in_one_line(page: Page) -> None:
    settled(page, "contest.html")
    definition = page.locator(".definition")
    description = view_of().column("worst").description.partition(". ")[0].rstrip(".")
    assert description.lower() in definition.inner_text().lower()
    assert "\n" not in definition.inner_text()
    assert definition.bounding_box()["y"] < page.locator("table.ranking").bounding_box()["y"]


TERMS = (
    "Flagged", "Upper bound", "Unbounded radius", "Front", "Balanced accuracy", "PSNR", "LiRA", "RMIA",
    "Malicious server", "Share recognised", "Worst attack", "Pairs reversed", "Wilcoxon signed-rank test",
)  # fmt: skip


@pytest.mark.parametrize("term", TERMS)
def test_the_glossary_has_the_words_of_the_pages(term: str) -> None:
    (meant,) = [entry for entry in glossary() if entry.name == term]
    assert len(meant.plain.split()) >= 8


def test_compare_opens_with_the_first_that_may_win_against_no_defense(page: Page, built: Path) -> None:
    index = json.loads((built / "data/contest/contest-d.vectors.json").read_text())
    assert index["opened"] == [JPEG, NONE]
    settled(page, "compare.html#c=data/contest/contest-d.vectors.json")
    page.locator("figure.pair").first.wait_for()
    ticked = page.locator("#entries label:has(input:checked)").evaluate_all("(all) => all.map((one) => one.title)")
    assert ticked == [JPEG, NONE]
    eligible = {label for label, position in report().rankings[0].places.items() if position.eligible}
    listed = page.locator("#entries label").evaluate_all("(all) => all.map((one) => one.title)")
    assert set(listed[: len(eligible)]) == eligible


def test_the_list_of_compare_says_how_many_it_has(page: Page) -> None:
    settled(page, "compare.html#c=data/contest/contest-d.vectors.json")
    counted = page.locator("#counted")
    expect(counted).to_have_text(re.compile(r"^\d+ entries, 2 picked$"))
    page.get_by_label("Find").fill("median")
    expect(counted).to_have_text(re.compile(r"^3 of \d+ entries, 2 picked$"))


@pytest.mark.parametrize("width", [1280, 1000, 768, 390])
def test_nothing_shows_between_the_bars_that_stay(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    settled(page, "contest.html")
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    top = page.locator("table.ranking").evaluate("(table) => table.getBoundingClientRect().top + scrollY")
    for further in (0, 57, 133):
        page.evaluate(f"window.scrollTo(0, {top + further})")
        assert page.locator(".bar").evaluate("(bar) => bar.getBoundingClientRect().top") < 60, "it stays"
        assert page.evaluate(COVERED) == []


def test_flagged_entries_do_not_stand_for_those_that_hold() -> None:
    from imharness_leaderboard.adaptive_effect import effect_of
    from imharness_leaderboard.scores import Scores

    original = report()
    comparison, numbers = original.comparisons[0].stored()
    ranking: Ranking = original.rankings[0]
    scores = Scores(sample_leaderboard(), comparison, numbers)
    sound = {
        label: position.model_copy(update={"flags": ()}) if label == NOISE else position
        for label, position in ranking.places.items()
    }
    drawn = [effect_of(scores, of) for of in (ranking, ranking.model_copy(update={"places": sound}))]
    assert ranking.places[NOISE].flags
    assert [NOISE in dict(effect.lines) for effect in drawn if effect is not None] == [False, True]


def test_attacks_are_counted_by_name_without_what_nobody_attacked() -> None:
    conditions = [SimpleNamespace(facets={"attack": attack}) for attack in ("none", "harness/ifgsm", "harness/ifgsm")]
    facts: Any = {"comparison": "c", "attack": "attack", "places": {"a": SimpleNamespace(control="")}}
    entries = [SimpleNamespace(kind=kind, label=f"x/{kind}") for kind in ("attack", "defense")]
    entries.append(SimpleNamespace(kind="attack", label="x/other"))
    track: Any = SimpleNamespace(
        track="t",
        rankings=[SimpleNamespace(chosen=False, **facts)],
        comparisons=[SimpleNamespace(id="c", conditions=conditions)],
        entries=entries,
    )
    assert home._counts([track]) == "1 track, 1 entry, 1 attack"
    track.rankings = [SimpleNamespace(chosen=True, **facts)]
    assert home._counts([track]) == "1 track, 1 entry, 2 attacks", "those among which one is chosen for each entry"

"""A ranking whose page has not all of its rows: picks, Compare, and a page that answers while it computes."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.conftest import few_resamples

from imharness.documents.stored import write_leaderboard
from imharness.leaderboard import Blocks
from imharness.results.store import Store
from imharness.tracks import TrackReport
from imharness_leaderboard.pages import build_site

from .browsing import opened, served, settled
from .conftest import sample_leaderboard
from .contested import NONE, blocks, crowd, crowd_report, without_pictures
from .test_contest_page import AGREE, chosen, frozen, pick, result

COPIES = 110
ANSWERS = 500
"""The longest time that the page may not answer while a choice is computed, ms."""


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    """Few resamples are enough: Python computes the level of intervals once, and both sides use it."""
    with few_resamples():
        yield


@pytest.fixture(scope="module")
def built() -> tuple[Blocks, TrackReport]:
    scores = crowd(COPIES)
    return scores, crowd_report(scores)


@pytest.fixture(scope="module")
def address(built: tuple[Blocks, TrackReport], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site with that ranking."""
    folder, report = tmp_path_factory.mktemp("scores"), built[1]
    store, stored = Store(folder / "store"), [comparison.stored() for comparison in report.comparisons]
    facts = {"tables": tuple(report.tables), "rankings": tuple(report.rankings), "charts": (), "entries": ()}
    leaderboard = sample_leaderboard(
        comparisons=tuple(c for c, _ in stored), track="harness/crowd", title="Crowd", **facts
    )
    write_leaderboard(store, leaderboard, {c.id: numbers for c, numbers in stored})
    with without_pictures():
        build_site(folder / "store", folder / "site")
    with served(folder / "site") as report:
        yield report


@pytest.fixture(scope="module")
def shared(browser: Browser, address: str) -> Iterator[Page]:
    yield from opened(browser, address)


def test_a_choice_ranks_rows_that_are_not_loaded_as_python_does(page: Page, built: tuple[Blocks, TrackReport]) -> None:
    scores, whole = built
    subset = scores.subset(chosen(scores, {"attacker": "aware"}))
    wanted = crowd_report(subset)
    intervals, ranking = frozen(wanted, whole), wanted.rankings[0]
    settled(page, "crowd.html")
    assert page.locator("tr.entry").count() == 50
    pick(page, "attacker", "aware")
    page_result = result(page)
    assert [row["label"] for row in page_result["rows"]] == [row.label for row in wanted.tables[0].rows]
    places = [(label, ranking.places[label]) for label in subset.entries]
    ranked = [i for i, (_, position) in enumerate(places) if position.eligible]
    assert len(ranked) > COPIES
    near = replace(intervals, alpha=2 * whole.rankings[0].best_alpha)
    may = {subset.entries[i] for i in ranked if not any(near.low[j, i] > 0 or intervals.low[j, i] > 0 for j in ranked)}
    assert 1 < len(may) < len(ranked)
    assert (page_result["winner"], set(page_result["may"])) == ("", may)
    for row in page_result["rows"]:
        i = subset.entries.index(row["label"])
        assert (row["rank"] is not None) == (i in ranked)
        if row["rank"]:
            assert (row["rank"]["low"], row["rank"]["high"]) == tuple(intervals.places(i, ranked))
    rows = page.locator("tr.entry:visible")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("Rows 51 to 100")
    expect(rows).to_have_count(50)
    by = {row["label"]: row for row in page_result["rows"]}
    for row in rows.all():
        page_row = by[row.get_attribute("data-label")]
        assert row.locator(".value").inner_text() == f"{page_row['worst']['value']:.2f}"


def test_entries_of_different_pages_are_compared_on_their_scores(page: Page, built: tuple[Blocks, TrackReport]) -> None:
    scores, whole = built
    settled(page, "crowd.html")
    labels = []
    for number in (0, 1):
        if number:
            page.get_by_role("button", name="Next").click()
            expect(page.locator(".pages")).to_contain_text("Rows 51 to 100")
        row = page.locator("tr.entry:visible").nth(3)
        row.get_by_role("checkbox").check()
        labels.append(row.get_attribute("data-label"))
    link = page.url
    settled(page, "about:blank")
    settled(page, link)
    expect(page.locator(".picked button")).to_have_count(2)
    page.get_by_role("link", name="Compare 2").click()
    row = page.locator("#result tr[data-pair]")
    row.wait_for()
    pair, raw = (json.loads(row.get_attribute(name)) for name in ("data-pair", "data-raw"))
    assert set(pair) == set(labels)
    intervals = frozen(whole, whole)
    first, second = map(scores.entries.index, pair)
    difference = raw["difference"]
    for key in ("value", "low", "high"):
        assert difference[key] == pytest.approx(getattr(intervals, key)[first, second], **AGREE)


def test_ranking_hundreds_of_entries_again_lets_the_page_answer(page: Page) -> None:
    """The longest time between two turns of the page while 600 entries are ranked; and the ranks by their means."""
    entries, few = 600, blocks()
    rng = np.random.default_rng(1)
    vectors = rng.normal(0, 1, (entries, 4 * 60)) + np.arange(entries)[:, None] / 50
    labels = [f"harness/e{i:03d}" for i in range(entries)]
    index = {
        "better": "higher",
        "entries": labels,
        "units": list(range(60)),
        "unit_sets": [list(range(60))],
        "conditions": [{"facets": {**few.conditions[c], "metric": "m"}, "units": 0} for c in (0, 4, 8, 12)],
        "starts": [60 * c for c in range(5)],
        "over": ["attack", "attacker"],
        "clusters": [],
        "weights": [],
        "pairwise_alpha": 1e-6,
        "value_range": 1,
        "alphas": [],
    }
    position = {"control": "", "able": True, "flagged": False, "complete": True}
    facts = {"attack": "attack", "attacker": "attacker", "unaware": "fixed", "undefended": NONE, "references": []}
    facts |= {"places": dict.fromkeys(labels, position), "alike": [0, 1, 2, 3], "best_alpha": 0.05}
    facts |= {"baseline": "", "matched": {}, "against_alphas": [0.04, 0.01]}
    facts |= {"broken_alpha": 0.05, "silent": {}, "nested": {}, "chosen": False}
    settled(page, "compare.html")
    script = """async ([index, rows, facts]) => {
        const { contest } = await import('/contest.js'), { slices, Stopped } = await import('/differences.js');
        const vectors = rows.map((own) => Float64Array.from(own)), all = index.conditions.map((_, c) => c);
        const start = performance.now();
        let last = start, longest = 0, turns = 0, going = true;
        const turn = () => {
            const now = performance.now();
            longest = Math.max(longest, now - last); last = now; turns++;
            if (going) setTimeout(turn);
        };
        setTimeout(turn);
        const found = await contest(index, vectors, facts, all);
        turn(); going = false;
        const total = last - start;
        const again = contest(index, vectors, facts, all, [], slices(() => false));
        const stopped = await again.catch((error) => error instanceof Stopped);
        const ranks = found.rows.map((row) => [row.label, row.rank.value]);
        return { longest, total, turns, stopped, first: found.first, ranks };
    }"""
    page_result = page.evaluate(script, [index, vectors.tolist(), facts])
    worst = vectors.reshape(entries, 4, 60).min(axis=1).mean(axis=1)
    order = np.argsort(-worst)
    assert page_result["first"] == labels[order[0]]
    assert dict(page_result["ranks"]) == {labels[i]: 1 + k for k, i in enumerate(order)}
    assert page_result["stopped"] is True
    assert page_result["turns"] > 3
    assert page_result["longest"] < max(ANSWERS, page_result["total"] / 3)

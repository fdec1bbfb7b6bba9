"""A ranking whose rows are not all in its page, with the scores behind it: picks, Compare, and a page that answers."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.conftest import few_resamples

from imharness.results.store import Store
from imharness.tables import Blocks
from imharness.tracks import TrackReport
from imharness_leaderboard.pages import build_site

from .browsing import opened, served, settled
from .conftest import board
from .contested import NONE, blocks, crowd, crowd_report, without_pictures
from .test_contest_page import AGREE, chosen, frozen, pick, result

COPIES = 110
ANSWERS = 500
"""How long the page need not answer while a choice is computed, ms."""


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    """A tail is resampled once, on the Python side, and both sides take that one."""
    with few_resamples():
        yield


@pytest.fixture(scope="module")
def made() -> tuple[Blocks, TrackReport]:
    scores = crowd(COPIES)
    return scores, crowd_report(scores)


@pytest.fixture(scope="module")
def address(made: tuple[Blocks, TrackReport], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site with that ranking."""
    folder, found = tmp_path_factory.mktemp("scores"), made[1]
    store, stored = Store(folder / "store"), [own.stored() for own in found.comparisons]
    facts = {"tables": tuple(found.tables), "rankings": tuple(found.rankings), "charts": (), "entries": ()}
    own = board(comparisons=tuple(c for c, _ in stored), track="harness/crowd", title="Crowd", **facts)
    store.save_board(own, {c.id: numbers for c, numbers in stored})
    with without_pictures():
        build_site(folder / "store", folder / "site")
    with served(folder / "site") as found:
        yield found


@pytest.fixture(scope="module")
def shared(browser: Browser, address: str) -> Iterator[Page]:
    yield from opened(browser, address)


def test_a_choice_ranks_rows_that_are_not_loaded_as_python_does(page: Page, made: tuple[Blocks, TrackReport]) -> None:
    scores, whole = made
    part = scores.part(chosen(scores, {"attacker": "aware"}))
    wanted = crowd_report(part)
    told, ranking = frozen(wanted, whole), wanted.rankings[0]
    settled(page, "crowd.html")
    assert page.locator("tr.entry").count() == 50
    pick(page, "attacker", "aware")
    found = result(page)
    assert [row["label"] for row in found["rows"]] == [row.label for row in wanted.tables[0].rows]
    places = [(label, ranking.places[label]) for label in part.entries]
    ranked = [i for i, (_, place) in enumerate(places) if place.complete and not place.control]
    assert len(ranked) > COPIES
    stands = [i for i in ranked if places[i][1].able and not places[i][1].flags]
    may = {part.entries[i] for i in stands if not any(told.low[j, i] > 0 for j in stands if j != i)}
    assert 1 < len(may) < len(stands)
    assert (found["winner"], set(found["may"])) == ("", may)
    for row in found["rows"]:
        i = part.entries.index(row["label"])
        assert (row["rank"] is not None) == (i in ranked)
        if row["rank"]:
            assert (row["rank"]["low"], row["rank"]["high"]) == tuple(told.places(i, ranked))
    rows = page.locator("tr.entry:visible")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("Rows 51 to 100")
    expect(rows).to_have_count(50)
    by = {row["label"]: row for row in found["rows"]}
    for row in rows.all():
        own = by[row.get_attribute("data-label")]
        assert row.locator(".value").inner_text() == f"{own['worst']['value']:.2f}"


def test_entries_of_different_pages_are_compared_on_their_scores(page: Page, made: tuple[Blocks, TrackReport]) -> None:
    scores, whole = made
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
    told = frozen(whole, whole)
    first, second = map(scores.entries.index, pair)
    own = raw["difference"]
    for key in ("value", "low", "high"):
        assert own[key] == pytest.approx(getattr(told, key)[first, second], **AGREE)


def test_ranking_hundreds_of_entries_again_lets_the_page_answer(page: Page) -> None:
    """The longest time between two turns of the page, while 600 entries are ranked; and the ranks by their means."""
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
        "tail": 1e-6,
        "reach": 1,
        "tails": [],
    }
    place = {"control": "", "able": True, "flagged": False, "complete": True}
    facts = {"attack": "attack", "attacker": "attacker", "unaware": "fixed", "undefended": NONE, "references": []}
    facts |= {"places": dict.fromkeys(labels, place), "alike": [0, 1, 2, 3], "control_tails": [0.05]}
    facts |= {"broken_tail": 0.05, "silent": {}, "chosen": False}
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
    found = page.evaluate(script, [index, vectors.tolist(), facts])
    worst = vectors.reshape(entries, 4, 60).min(axis=1).mean(axis=1)
    order = np.argsort(-worst)
    assert found["first"] == labels[order[0]]
    assert dict(found["ranks"]) == {labels[i]: 1 + k for k, i in enumerate(order)}
    assert found["stopped"] is True
    assert found["turns"] > 3
    assert found["longest"] < max(ANSWERS, found["total"] / 3)

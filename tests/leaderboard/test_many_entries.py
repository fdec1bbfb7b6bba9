"""A ranking of two thousand entries: what its page weighs, and that every entry is found, sorted and reached."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import Value
from imharness.results.store import Store
from imharness_leaderboard import pages
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.ranking_rows import SHOWN, WHOLE, parts_of

from .browsing import opened, served, settled
from .conftest import sample_leaderboard
from .contested import JPEG, report

ENTRIES, BYTES, NODES = 2000, 2_000_000, 6000
"""How many entries are ranked, and the most bytes and elements that their page may have."""


def moved(value: Value, step: float) -> Value:
    numbers = {name: getattr(value, name) for name in ("value", "low", "high")}
    return value.model_copy(update={name: number + step for name, number in numbers.items() if number is not None})


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site with one ranking of 2,000 entries, without the pages of details and of entries."""
    folder, original = tmp_path_factory.mktemp("many"), report()
    table, ranking = original.tables[0], original.rankings[0]
    jpeg = next(row for row in table.rows if row.label == JPEG)
    rows, places = list(table.rows), dict(ranking.places)
    for i in range(ENTRIES - len(rows)):
        label = f"acme/copy-{i:04d}[strength={i % 9},steps=10]"
        steps = {"worst": 0.01, "unaware": 0.005, "utility": -1e-5}
        values = {**jpeg.values, **{key: moved(jpeg.values[key], step * i) for key, step in steps.items()}}
        values["rank"] = Value(value=i + 2, low=2, high=i + 9)
        rows.append(jpeg.model_copy(update={"label": label, "values": values}))
        places[label] = ranking.places[JPEG].model_copy(update={"front": i % 100 == 0})
    ranking = ranking.model_copy(update={"places": places, "winner": "", "comparison": ""})
    store = Store(folder / "store")
    facts = {"tables": (table.model_copy(update={"rows": tuple(rows)}),), "rankings": (ranking,), "charts": ()}
    write_leaderboard(
        store, sample_leaderboard(track="harness/crowd", title="Crowd", comparisons=(), entries=(), **facts), {}
    )
    write_page = pages._Build._page

    def without_details(self: pages._Build, name: str, template: str, **facts: object) -> None:
        if template not in ("details.html", "entry.html"):
            write_page(self, name, template, **facts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages._Build, "_page", without_details)
        build_site(folder / "store", folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def address(crowd: Path) -> Iterator[str]:
    """The address of that site on this machine."""
    with served(crowd) as site_address:
        yield site_address


@pytest.fixture(scope="module")
def shared(browser: Browser, address: str) -> Iterator[Page]:
    yield from opened(browser, address)


def test_the_page_of_two_thousand_entries_is_light(new_page: Page) -> None:
    page, sizes = new_page, dict[str, int]()
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    settled(page, "crowd.html")
    expect(page.locator("tr.entry:visible")).to_have_count(SHOWN)
    assert "crowd.html" in {url.rpartition("/")[2] for url in sizes}
    assert sum(sizes.values()) <= BYTES
    assert page.evaluate("document.querySelectorAll('*').length") <= NODES
    assert page.locator(".pages").inner_text().split() == f"Previous Rows 1 to {SHOWN} of 2,000 Next".split()


def test_sort_filter_page_and_back_count_rows_that_are_not_loaded_yet(page: Page) -> None:
    settled(page, "crowd.html")
    rows = page.locator("tr.entry:visible")
    page.locator("th[data-sort=worst] button").click()
    page.locator("th[data-sort=worst] button").click()
    page.locator("tr.entry[data-label^='acme/copy-1993']").wait_for()
    values = [float(v) for v in rows.locator(".value").all_inner_texts()]
    assert len(values) == SHOWN
    assert values == sorted(values, reverse=True)
    page.get_by_label("Filter").fill("copy-1234")
    expect(rows).to_have_count(1)
    assert rows.first.get_attribute("data-label") == "acme/copy-1234[strength=1,steps=10]"
    assert rows.locator("a.open").get_attribute("href").startswith(page.url.partition("crowd.html")[0])
    page.get_by_label("Filter").fill("copy")
    expect(rows).to_have_count(SHOWN)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("Rows 51 to 100 of 1,994")
    assert "page=2" in page.url
    link = page.url
    page.go_back()
    expect(page.locator(".pages")).to_contain_text("Rows 1 to 50 of 1,994")
    settled(page, "about:blank")
    settled(page, link)
    expect(page.locator(".pages")).to_contain_text("Rows 51 to 100 of 1,994")
    expect(rows).to_have_count(SHOWN)


def test_without_scripts_every_row_is_reached_by_links(crowd: Path, browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=address)
    without = context.new_page()
    without.goto("crowd.html")
    assert without.locator("tr.entry:visible").count() == SHOWN
    without.get_by_role("link", name="2", exact=True).click()
    assert without.locator("tr.entry:visible").count() == SHOWN
    assert "rows 51 to 100" in without.locator("h1").inner_text()
    without.locator(".name").first.wait_for()
    context.close()
    index = json.loads((crowd / "data" / "crowd" / "contest.rows.json").read_text())
    texts = [(crowd / name).read_text() for name in index["pages"]]
    assert [text.count('<tr class="entry') for text in texts] == [SHOWN] * (ENTRIES // SHOWN)
    for i, label in enumerate(index["labels"]):
        assert f'data-label="{label}"' in texts[i // SHOWN]


def test_from_a_folder_on_disk_the_other_rows_are_links(browser: Browser, crowd: Path) -> None:
    context = browser.new_context()
    disk = context.new_page()
    disk.goto((crowd / "crowd.html").as_uri())
    assert disk.locator("tr.entry:visible").count() == SHOWN
    disk.get_by_role("link", name="40", exact=True).click()
    assert "rows 1951 to 2000" in disk.locator("h1").inner_text()
    context.close()


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (WHOLE, [WHOLE]), (WHOLE + 1, [SHOWN, SHOWN, 1])])
def test_a_short_ranking_is_whole_and_a_long_one_in_parts(count: int, sizes: list[int]) -> None:
    original, rows = sample_leaderboard(), range(count)
    chunks = parts_of(original, original.tables[0], rows)
    assert [len(chunk.rows) for chunk in chunks] == sizes
    assert [row for chunk in chunks for row in chunk.rows] == list(rows)
    assert chunks[0].page == "acme--evil.html"

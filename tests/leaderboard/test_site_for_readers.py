"""What readers of the site stumbled over once, each in a browser: words, links, Back, filters, exports and search."""

import csv
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from imharness_leaderboard.texts import glossary

from .browsing import SIZES, settled
from .conftest import ENTRIES
from .contested import ATTACKS, FLIP, JPEG, MEDIAN, NOISE, NONE, PROXIES, PURIFIER

COMPARED = "data/contest/contest-d.vectors.json"
PAGES = (
    "changes.html",
    "compare.html",
    "contest/gallery.html",
    "data.html",
    "glossary.html",
    "methods.html",
    "acme--evil/main.html",
    "contest/contest.html",
    "acme--evil.html",
    "index.html",
    "contest.html",
)


def compared(*labels: str) -> str:
    return "compare.html#" + urlencode([("c", COMPARED), *(("e", label) for label in labels)])


def entry_of(page: Page, label: str) -> Page:
    """Open the page of an entry by searching for it."""
    search(page, label)
    page.locator(".found a").first.click()
    page.wait_for_load_state("networkidle")
    return page


def search(page: Page, text: str) -> list[str]:
    """Return what is found for a text from the home page, the nearest first."""
    settled(page, "index.html")
    page.locator("[data-search]").click()
    page.locator("#find-all").fill(text)
    page.locator(".found li").first.wait_for()
    return [own.strip() for own in page.locator(".found li").all_inner_texts()]


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_a_phone(page: Page, name: str) -> None:
    page.set_viewport_size(SIZES["phone"])
    settled(page, name)
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"]["width"]


def test_exports_carry_what_the_numbers_do_not_say(built: Path) -> None:
    rows = {
        row["defense"]: row for row in csv.DictReader((built / "data/contest/contest.csv").read_text().splitlines())
    }
    assert rows[NONE]["control"] == "undefended"
    assert rows[MEDIAN]["gate"] == "fails"
    assert rows[PURIFIER]["incomplete"] == "incomplete"
    assert rows[NOISE]["flags"] == "more steps lowered the attack's success"
    assert {row["proxies"] for row in rows.values()} == {"; ".join(PROXIES)}
    standing = json.loads((built / "data/contest/contest.json").read_text())["standing"]
    assert sorted(standing) == ["control", "flags", "gate", "incomplete", "proxies"]
    assert PROXIES[0] in (built / "cite/leaderboard.bib").read_text()
    noise = next((built / "cite").glob("*acme--noise*.bib")).read_text()
    assert "flagged: more steps lowered the attack's success" in noise
    assert PROXIES[0] in noise


def test_a_copied_table_says_who_cannot_win_and_that_data_stand_in(page: Page) -> None:
    settled(page, "contest/contest.html")
    page.locator("summary", has_text="Copy").click()
    for form, control in (("CSV", '"control: undefended"'), ("LaTeX", "control: undefended.")):
        page.get_by_role("button", name=form, exact=True).click()
        page.get_by_role("button", name=f"{form} copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        assert control in text
        assert PROXIES[0] in text


def test_back_takes_back_a_choice_on_the_compare_page(page: Page) -> None:
    settled(page, compared(FLIP, JPEG))
    page.locator("figure.pair").first.wait_for()
    page.locator("#entries label", has_text="No defense").get_by_role("checkbox").check()
    expect(page.locator("figure.pair")).to_have_count(3)
    page.go_back()
    expect(page.locator("figure.pair")).to_have_count(1)
    assert "compare.html" in page.url


def test_what_is_ticked_stays_in_sight_when_entries_are_filtered(page: Page) -> None:
    settled(page, compared(FLIP, JPEG))
    page.locator("#entries label").first.wait_for()
    page.get_by_label("Find").fill("purifier")
    shown = page.locator("#entries label:visible").all_inner_texts()
    assert len(shown) == 3
    assert sum("Flip" in text or "JPEG" in text for text in shown) == 2


def test_a_pair_is_drawn_photograph_by_photograph_with_its_interval(page: Page, built: Path) -> None:
    settled(page, compared(FLIP, JPEG))
    figure = page.locator("figure.pair")
    figure.wait_for()
    index = json.loads((built / COMPARED).read_text())
    photographs = len(set(index["clusters"])) or len(index["units"])
    assert figure.locator("svg circle:not(.mean)").count() == photographs
    assert figure.locator("svg .whisker").count() == 1
    told = json.loads(page.locator("#result tr[data-pair]").get_attribute("data-raw") or "")["difference"]
    said = figure.locator("figcaption").inner_text()
    assert "JPEG (quality 50, subsampling 4:2:0) is shown to be better than Flip" in said
    assert f"[{told['low']:.2f}, {told['high']:.2f}]" in said
    with page.expect_download() as waiting:
        figure.get_by_role("link", name="Numbers").click()
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert len(lines) == 1 + photographs
    assert PROXIES[0] in lines[1]
    assert PROXIES[0] in page.locator("#result").inner_text()


def test_facets_of_the_compare_page_say_what_the_attacker_knows(page: Page) -> None:
    settled(page, compared(FLIP, JPEG))
    page.get_by_role("group", name="attacker").wait_for()
    words = page.get_by_role("group", name="attacker").inner_text()
    assert "knows the defense" in words
    assert "adaptive" not in words


def test_what_broke_an_entry_links_every_attack(page: Page) -> None:
    entry_of(page, "Flip")
    table = page.get_by_role("region", name="Attacks that broke it")
    names = table.locator("th[scope=row]")
    assert names.count() == len(ATTACKS)
    for i in range(names.count()):
        assert names.nth(i).locator("a").count() == 1


def test_the_gallery_speaks_of_its_own_images(page: Page) -> None:
    settled(page, "contest/gallery.html")
    lead = page.locator(".lead").inner_text()
    assert "Under the attack that moves it most." in lead
    assert "before the attack, after it, and after the defense" not in lead


def test_search_finds_the_name_itself_first_and_terms_and_papers(page: Page) -> None:
    found = search(page, "flip")
    assert found[0].startswith("Flip")
    for term in ("gate", "srocc", "bpda"):
        first = search(page, term)[0]
        assert first.lower().startswith(term)
        assert first.endswith("term")
    page.locator(".found a").first.click()
    page.wait_for_url(re.compile(r"glossary\.html#bpda"))
    assert page.locator("#bpda").is_visible()
    assert search(page, "no such thing")[0] == "Nothing has this name."


def test_a_term_is_linked_once_where_it_is_used_first(page: Page) -> None:
    settled(page, "compare.html")
    links = page.locator("main a.term")
    names = [text.lower() for text in links.all_inner_texts()]
    assert names
    assert len(names) == len(set(names))
    links.first.click()
    page.wait_for_url(re.compile(r"glossary\.html#"))


def test_the_glossary_of_the_site_is_that_of_the_documentation(page: Page) -> None:
    settled(page, "glossary.html")
    assert page.locator("dl.columns dt").all_inner_texts() == [term.name.replace("D^D", "DD") for term in glossary()]


def test_the_rules_of_the_documentation_are_the_page_of_methods(page: Page) -> None:
    settled(page, "methods.html")
    source = Path("docs/ranking.md").read_text()
    headings = re.findall(r"^##? (.+)$", source, re.MULTILINE)
    shown = page.locator("main h1, main h2").all_inner_texts()
    assert [text for text in shown if text in headings] == headings
    for address in page.locator("main .prose a").evaluate_all("(links) => links.map((a) => a.getAttribute('href'))"):
        assert address.startswith(("https://", "#", "methods.html", "glossary.html"))


def test_no_number_is_minus_zero(built: Path) -> None:
    for file in built.rglob("*.html"):
        assert not re.search(r"[>(\[ ][-−]0\.?0*[ <)\],]", file.read_text()), file


def test_what_changed_says_what_is_there(page: Page) -> None:
    settled(page, "changes.html")
    text = page.locator("main").inner_text()
    assert f"{len(ENTRIES)} entries by D" in text
    assert "harness site publish" not in text

"""Faults that readers of the site once met, each tested in a browser: words, links, Back, filters, exports, search."""

import csv
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from imharness.documents.entries import Entry
from imharness_leaderboard.names import head_of, short_titles, table_title
from imharness_leaderboard.texts import glossary

from .browsing import SIZES, read, settled
from .conftest import ENTRIES, sample_leaderboard
from .contested import ATTACKS, FLIP, JPEG, LEVELS, MEDIAN, NOISE, NONE, PROXIES, PURIFIER

COMPARED = "data/contest/contest-d.vectors.json"


def compared(*labels: str) -> str:
    return "compare.html#" + urlencode([("c", COMPARED), *(("e", label) for label in labels)])


def entry_of(page: Page, label: str) -> Page:
    """Open the page of an entry by searching for it."""
    search(page, label)
    page.locator(".found a").first.click()
    return read(page)


def search(page: Page, text: str) -> list[str]:
    """Return the results of a search from the home page, the nearest first."""
    settled(page, "index.html")
    page.locator("[data-search]").click()
    page.locator("#find-all").fill(text)
    page.locator(".found li").first.wait_for()
    return [text.strip() for text in page.locator(".found li").all_inner_texts()]


@pytest.mark.parametrize("name", ["contest/gallery.html", "glossary.html"])
def test_no_page_is_wider_than_a_phone(page: Page, name: str) -> None:
    """`test_axe_finds_nothing_and_nothing_runs_off_the_page` tests the widths of other pages."""
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
    visible = page.locator("#entries label:visible").all_inner_texts()
    assert len(visible) == 3
    assert sum("Flip" in text or "JPEG" in text for text in visible) == 2


def test_a_pair_is_drawn_photograph_by_photograph_with_its_interval(page: Page, built: Path) -> None:
    settled(page, compared(FLIP, JPEG))
    figure = page.locator("figure.pair")
    figure.wait_for()
    index = json.loads((built / COMPARED).read_text())
    photographs = len(set(index["clusters"])) or len(index["units"])
    assert figure.locator("svg circle:not(.mean)").count() == photographs
    assert figure.locator("svg .whisker").count() == 1
    difference = json.loads(page.locator("#result tr[data-pair]").get_attribute("data-raw") or "")["difference"]
    caption = figure.locator("figcaption").inner_text()
    assert "JPEG (quality=50, subsampling=4:2:0) is shown to be better than Flip" in caption
    assert f"[{difference['low']:.2f}, {difference['high']:.2f}]" in caption
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
    results = search(page, "flip")
    assert results[0].startswith("Flip")
    for term in ("gate", "srocc", "bpda"):
        first = search(page, term)[0]
        assert first.lower().startswith(term)
        assert first.endswith("term")
    page.locator(".found a").first.click()
    page.wait_for_url(re.compile(r"glossary\.html#bpda"))
    assert page.locator("#bpda").is_visible()
    assert search(page, "no such thing")[0] == "Nothing has this name."


def test_search_finds_papers_and_entries_by_any_of_their_words(page: Page, built: Path) -> None:
    entries = json.loads((built / "data/search.json").read_text())
    kinds = {kind.partition(" ")[0] for _, kind, _, _ in entries}
    assert {"track", "term", "defense", "paper", "table,"} <= kinds
    results = search(page, "jpeg")
    assert results[0].startswith("JPEG (quality=50")
    paper = next(text for text, kind, *_ in entries if kind.startswith("paper"))
    assert search(page, paper)[0].startswith(paper.strip()[:20])
    for text, kind, address, label in entries:
        assert (built / address.partition("#")[0]).is_file(), (text, kind, label)


def test_every_question_of_the_home_page_opens_a_ranking_with_its_buttons(page: Page) -> None:
    settled(page, "index.html")
    links = page.get_by_role("link", name=re.compile("See ranking"))
    addresses = links.evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    assert addresses
    for address in addresses:
        settled(page, address)
        if page.locator("table.ranking").count():
            assert page.locator(".attackers label:visible").count() == 3
    assert "contest.html" in {address.partition("#")[0] for address in addresses}


def test_a_label_of_the_front_is_nearest_to_its_own_mark_and_the_winner_has_one(page: Page) -> None:
    settled(page, "contest.html")
    marks = page.locator(".large-front .mark").evaluate_all(
        "(all) => all.map((one) => { const b = one.getBoundingClientRect();"
        " const name = one.querySelector('title').textContent.split(':')[0];"
        " return [name, (b.left + b.right) / 2, (b.top + b.bottom) / 2]; })"
    )
    labels = page.locator(".large-front .label").evaluate_all(
        "(all) => all.map((one) => { const b = one.getBoundingClientRect();"
        " return [one.textContent, b.left, b.top, b.right, b.bottom]; })"
    )
    assert "JPEG" in {name for name, *_ in labels}
    for name, left_edge, top, right, bottom in labels:

        def far(x: float, y: float, box: tuple[float, ...] = (left_edge, top, right, bottom)) -> float:
            return max(box[0] - x, x - box[2], 0) + max(box[1] - y, y - box[3], 0)

        nearest = min(far(x, y) for mark, x, y in marks if mark == name)
        assert nearest <= min(far(x, y) for mark, x, y in marks if mark != name) + 2


def test_the_two_best_are_compared_over_all_settings(page: Page) -> None:
    settled(page, "index.html")
    link = page.get_by_role("link", name=re.compile(r"^Compare \(")).first
    assert "without" not in link.get_attribute("href")
    link.click()
    page.locator("#basis", has_text=re.compile(r"16 of 16 chosen conditions")).wait_for()
    assert page.get_by_text("vs first").count() == 0


def test_a_choice_that_nobody_ran_says_so_and_blames_no_utility(page: Page, built: Path) -> None:
    """In the file that this page is given, no attacker who knows the defense has run one of the attacks."""
    index = json.loads((built / COMPARED).read_text())
    for condition in index["conditions"]:
        if condition["facets"]["attack"] == ATTACKS[1]:
            condition["facets"]["attacker"] = "fixed"
    page.route("**/contest-d.vectors.json", lambda route: route.fulfill(json=index))
    settled(page, "contest.html?" + urlencode({"attacker": "aware", "attack": ATTACKS[1]}))
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("no such attack was run")
    assert "utility" not in verdict.inner_text().lower()
    assert "gate" not in verdict.inner_text().lower()


def test_no_p_value_is_above_one(page: Page) -> None:
    settled(page, compared(FLIP, JPEG, NONE))
    rows = page.locator("#result tr[data-pair]")
    rows.first.wait_for()
    tasks = rows.evaluate_all("(rows) => rows.flatMap((row) => [row.cells[4], row.cells[5]].map((c) => c.textContent))")
    pairs = [[float(p) for p in re.findall(r"[\d.]+(?:e[+-]?\d+)?", text)] for text in tasks]
    assert [len(pair) for pair in pairs] == [2] * 6, "raw and corrected, in both directions, of three pairs"
    assert all(0 <= raw <= corrected <= 1 for raw, corrected in pairs)
    assert any(corrected == 1 for _, corrected in pairs)
    exact = [json.loads(raw) for raw in rows.evaluate_all("(rows) => rows.map((row) => row.dataset.raw)")]
    assert [exact_pair[key] for exact_pair in exact for key in ("better", "worse")] == pytest.approx(
        [raw for raw, _ in pairs], abs=5e-5
    )


def test_every_chart_of_a_track_has_its_source_and_its_numbers(page: Page) -> None:
    for name in ("contest.html", "acme--evil.html"):
        settled(page, name)
        for figure in page.locator("main figure:has(svg), main figure:has(.drawn)").all():
            assert "Source:" in figure.inner_text()
            assert figure.get_by_role("link", name=re.compile("Numbers")).count() == 1
    settled(page, "contest.html")
    attacks = page.locator("#attacks")
    assert "Source: Contest track, profile p" in attacks.inner_text()
    with page.expect_download() as waiting:
        attacks.get_by_role("link", name=re.compile("Numbers as CSV")).click()
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text().splitlines()))
    assert {row["entry"] for row in rows} == set(LEVELS)
    tasks = page.locator(".heat-map tbody tr").first.locator("td").all_inner_texts()
    assert [f"{float(v):.2f}" for v in list(rows[0].values())[1:]] == tasks


def test_a_track_shows_its_worst_case_and_at_most_five_pictures(page: Page) -> None:
    for name in ("contest.html", "acme--evil.html"):
        settled(page, name)
        count = page.locator("#images .panel").count()
        assert count >= 2
        assert count + page.locator("main .drawn").count() <= 5
    settled(page, "contest.html")
    assert "Under the attack that moves it most." in page.locator("#images").inner_text()
    page.get_by_role("link", name="See all images").click()
    assert page.locator("h1").inner_text() == "Gallery"


@pytest.mark.parametrize(
    ("label", "head"),
    [
        ("psnr, worst attack", "PSNR, worst attack, dB"),
        ("PSNR of D(x)", "PSNR of D(x), dB"),
        ("coverage", "coverage, %"),
        ("D^D %, mean", "D^D %, mean"),
        ("SSIM", "SSIM"),
    ],
)
def test_heads_say_their_unit(label: str, head: str) -> None:
    assert head_of(label) == head


def test_tables_are_called_as_pages_call_entries_and_told_apart() -> None:
    names = ("a/wins", "harness/invgrad[steps=300]", "harness/invgrad[steps=30]")
    leaderboard = sample_leaderboard(
        entries=tuple(Entry(kind="attack", id=n.partition("[")[0], label=n, version="1") for n in names)
    )
    main = leaderboard.tables[0]
    titled = [
        main.model_copy(update={"id": id, "title": title})
        for id, title in (("x", "Wins"), ("y", "Wins"), ("z", "Leakage, invgrad[steps=300], trained"))
    ]
    leaderboard = leaderboard.model_copy(update={"tables": tuple(titled)})
    assert [table_title(leaderboard, one) for one in titled] == [
        "Wins (x)",
        "Wins (y)",
        "Leakage, InvGrad (steps=300), trained",
    ]


def test_a_list_of_contents_has_short_titles() -> None:
    alone = ["Protected models by leakage, gradattack[steps=60], trained", "Protection of the most vulnerable records"]
    assert short_titles(alone) == ["Protected models", "Protection of the most vulnerable records"]
    alike = ["Models by leakage, curious: gradient of 2 images", "Models by leakage, malicious: gradient of 8 images"]
    assert short_titles(alike) == ["Curious: gradient of 2 images", "Malicious: gradient of 8 images"]


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
    assert page.locator("dl.columns dt").all_inner_texts() == [term.name.replace("^D", "D") for term in glossary()]


def test_the_rules_of_the_documentation_are_the_page_of_methods(page: Page) -> None:
    settled(page, "methods.html")
    source = Path("docs/ranking.md").read_text()
    headings = re.findall(r"^##? (.+)$", source, re.MULTILINE)
    visible = page.locator("main h1, main h2").all_inner_texts()
    assert [text for text in visible if text in headings] == headings
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

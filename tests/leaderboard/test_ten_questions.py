"""Questions that readers bring, each answered from the home page in at most two clicks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .browsing import opened, read, served, settled, watched
from .contested import PROXIES

START = "index.html"
LEADERBOARD = "Contest track"
MOST = 2


class Reader:
    """A reader who begins on the home page, and whose clicks are counted; typing does not count."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = settled(page, START), 0

    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.filter(visible=True).first.click()
        read(self.page)
        assert self.clicks <= MOST

    def to_ranking(self, leaderboard: str = LEADERBOARD) -> None:
        """Open the ranking of a track from the home page."""
        self.click(self.page.get_by_role("link", name=re.compile(f"See ranking.*{leaderboard}")))

    def search(self, text: str) -> None:
        """Open the first result of a search."""
        self.click(self.page.get_by_role("button", name="Search"))
        self.page.get_by_role("searchbox").first.fill(text)
        self.click(self.page.locator(".found a"))


@pytest.fixture
def reader(page: Page) -> Reader:
    return Reader(page)


def test_who_is_best_against_an_attacker_who_knows_the_defense(reader: Reader) -> None:
    reader.to_ranking()
    reader.click(reader.page.locator("label", has_text="Knows it"))
    expect(reader.page.get_by_role("status").first).to_contain_text("JPEG")


def test_how_did_my_entry_do(reader: Reader) -> None:
    reader.search("acme/median")
    assert "median" in reader.page.get_by_role("heading", level=1).inner_text()
    assert "costs too much" in reader.page.locator("#did").inner_text()


def test_how_do_i_cite_it(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="Cite", exact=True))
    assert "@misc{" in reader.page.get_by_label(f"BibTeX of {LEADERBOARD}").inner_text()


def test_is_one_better_than_another(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name=re.compile(r"^Compare \(")))
    expect(reader.page.locator("figure.pair").first).to_contain_text("on average")


def test_i_need_the_table_in_latex(reader: Reader) -> None:
    reader.to_ranking()
    with reader.page.expect_download() as waiting:
        reader.click(reader.page.get_by_role("link", name="LaTeX"))
    text = Path(waiting.value.path()).read_text()
    assert r"\begin{tabular}" in text
    assert "Proxies: labels by a formula; do not cite." in text


def test_can_i_check_a_number(reader: Reader) -> None:
    reader.search("flip")
    assert "harness run --track harness/contest" in reader.page.locator("#run").inner_text()


def test_which_attack_is_the_strongest(reader: Reader) -> None:
    reader.to_ranking()
    reader.click(reader.page.get_by_role("link", name="Attacks", exact=True))
    assert "I-FGSM" in reader.page.locator("#attacks h3").first.inner_text()


def test_what_do_attacked_images_look_like(reader: Reader) -> None:
    reader.to_ranking()
    reader.click(reader.page.get_by_role("link", name="Images", exact=True))
    image = reader.page.locator(".gallery img:visible").first
    assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0


def test_what_does_this_word_mean(reader: Reader) -> None:
    reader.search("gate")
    assert reader.page.url.endswith("glossary.html#gate")
    assert "A test of what a winner must keep" in reader.page.locator("#gate + dd").inner_text()


def test_student_how_do_i_read_a_row_and_what_is_measured(reader: Reader) -> None:
    assert "Filled dot and bar" in reader.page.locator("main").inner_text()
    reader.click(reader.page.locator("a.term", has_text=re.compile("worst attack", re.IGNORECASE)))
    assert reader.page.url.endswith("glossary.html#worst-attack")
    assert reader.page.locator("#worst-attack + dd").is_visible()


def test_reviewer_is_it_more_than_chance_and_by_which_test(reader: Reader) -> None:
    reader.to_ranking()
    row = reader.page.locator("table.ranking tr.entry", has=reader.page.get_by_role("link", name="JPEG", exact=True))
    assert re.search(r"p [\d.<e-]+ \([\d.<e-]+\)", row.locator("td.against").inner_text())
    reader.click(reader.page.get_by_role("link", name="Methods", exact=True))
    assert {"Wilcoxon", "Holm"} <= set(re.findall(r"\w+", reader.page.locator("main").inner_text()))


@pytest.mark.parametrize(
    ("link", "answer"),
    [
        ("which claims of the papers hold", "In part"),
        ("how the numbers are made", "Controls never win"),
    ],
)
def test_reviewer_what_holds(link: str, answer: str, reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name=link))
    assert answer in reader.page.locator("main").inner_text()


def test_reviewer_what_did_a_study_on_real_data_find(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="studies on real data"))
    reader.click(reader.page.locator("main").get_by_role("link", name="lpips", exact=True))
    assert "beats every metric that may win" in reader.page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("May I release my model?", "ih.audit("),
        ("May I share gradients?", "ih.reconstruct("),
        ("Where would my method land?", "ih.evaluate("),
    ],
)
def test_practitioner_what_do_i_run_and_what_does_it_give(question: str, command: str, reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name=question))
    assert any(command in text for text in reader.page.locator("main pre").all_inner_texts())
    picture = reader.page.locator("main img").first
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0


def test_journalist_may_i_cite_it_and_what_changed(reader: Reader) -> None:
    strip = reader.page.locator("details.data-strip")
    assert "not citable" in strip.inner_text()
    reader.click(strip.locator("summary"))
    assert PROXIES[0] in strip.inner_text()
    reader.click(reader.page.get_by_role("link", name="what changed"))
    assert reader.page.get_by_role("heading", level=1).inner_text() == "What changed"


def test_author_what_broke_my_entry(reader: Reader) -> None:
    reader.search("flip")
    assert "I-FGSM" in reader.page.get_by_role("region", name="Attacks that broke it").inner_text()


def test_author_how_do_i_submit(reader: Reader) -> None:
    reader.click(reader.page.get_by_role("link", name="Submit", exact=True))
    assert "harness submissions" in reader.page.locator("main").inner_text()


@pytest.fixture
def beside_paper(browser: Browser, ran: Path) -> Iterator[Page]:
    """A page of the site of a run whose track has published numbers."""
    with served(ran / "site") as address:
        for opened_page in opened(browser, address):
            yield from watched(opened_page, address)


def test_does_it_match_the_paper(beside_paper: Page) -> None:
    reader = Reader(beside_paper)
    reader.to_ranking("Perceptual distances")
    reader.click(reader.page.get_by_role("link", name="Published and ours"))
    assert "setting of the paper" in reader.page.locator("main").inner_text()

"""The guides of the site: six lines each, what these gave, and how readers come to them."""

import re
import runpy
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from imharness_leaderboard.guide_pages import FOLDER, GUIDES, Guide
from imharness_leaderboard.searching import PAGES

from .browsing import settled

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "guides.py"))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_guide_has_six_lines_which_were_run_as_they_stand(guide: Guide) -> None:
    assert (guide.ran.before, guide.ran.code) == SCRIPT["code_of"](guide.name)
    assert len(guide.ran.code.splitlines()) == 6
    assert max(map(len, guide.ran.code.splitlines())) <= 110
    compile(guide.ran.before + "\n" + guide.ran.code, guide.name, "exec")
    assert guide.ran.seconds > 0
    assert guide.ran.first
    header = (FOLDER / f"{guide.name}.png").read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == guide.ran.size


def test_gradients_are_rebuilt_as_the_guide_shows(tmp_path: Path) -> None:
    """Of the three guides this one is the fastest; its numbers may differ in a digit on another processor."""
    guide = next(guide for guide in GUIDES if guide.name == "reconstruct")
    text = SCRIPT["ran"]("reconstruct", tmp_path)["text"]
    assert re.sub(r"[\d.]+", "#", text.splitlines()[0]) == re.sub(r"[\d.]+", "#", guide.ran.text.splitlines()[0])


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_a_button_of_the_home_page_leads_to_each_guide_with_code_time_and_picture(page: Page, guide: Guide) -> None:
    settled(page, "index.html")
    button = page.locator(".guides a", has_text=guide.question)
    assert guide.ran.time in button.inner_text()
    button.click()
    page.wait_for_url(f"**/{guide.page}")
    assert page.get_by_label("Code").inner_text().strip() == guide.ran.code
    assert f"took {guide.ran.time} of one core" in page.locator("main").inner_text()
    assert (
        page.locator("figure.outcome img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 900
    )


def test_without_scripts_a_guide_has_all_of_it(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=address)
    opened_page = context.new_page()
    for guide in GUIDES:
        opened_page.goto(guide.page)
        assert guide.ran.code.splitlines()[0] in opened_page.locator("main").inner_text()
        assert opened_page.locator("figure.outcome img:visible").count() == 1
    context.close()


FOUND = {
    "submit": "submit.html",
    "release": "guide-audit.html",
    "wilcoxon": "glossary.html#wilcoxon-signed-rank-test",
    "gradients": "guide-reconstruct.html",
}


@pytest.mark.parametrize("text", FOUND)
def test_search_finds_pages_guides_and_methods(page: Page, text: str) -> None:
    settled(page, "index.html")
    page.locator("[data-search]").click()
    page.locator("#find-all").fill(text)
    page.locator(".found a").first.wait_for()
    assert FOUND[text] in page.locator(".found a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")


def test_every_page_that_search_knows_exists(built: Path) -> None:
    for _, page, _ in PAGES:
        assert (built / page).is_file()

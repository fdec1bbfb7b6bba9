"""What the papers claim, and the studies on real data, as pages of the site."""

import re
import tomllib
from pathlib import Path

from playwright.sync_api import Page

from imharness_leaderboard import texts

from .browsing import SIZES, settled

ROOT = Path(__file__).resolve().parents[2]


def test_every_study_has_a_page_and_is_in_the_wheel() -> None:
    sources = {f"docs/studies/{path.name}" for path in (ROOT / "docs" / "studies").glob("*.md")}
    assert {f"docs/{name}" for name in texts.studies()} == sources - {f"docs/{texts.STUDIES}"}
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = {name: target for name, target in included["force-include"].items() if name.startswith("docs/studies/")}
    assert shipped == {name: name.replace("docs/", "imharness_leaderboard/texts/", 1) for name in sources}


def test_links_of_the_documentation_lead_to_pages_of_the_site(built: Path) -> None:
    pages = [texts.ON_SITE[texts.CLAIMS], texts.ON_SITE[texts.STUDIES], *texts.studies().values()]
    for name in pages:
        text = (built / name).read_text()
        assert "&lt;!--" not in text
        assert "toctree" not in text
        for address in re.findall(r'<a href="([^"#]+)"', text.partition("<main")[2].partition("</main>")[0]):
            assert address.startswith("https://") or (built / address).is_file(), (name, address)


def test_the_claims_of_the_papers_stand_beside_what_holds_and_lead_to_the_studies(page: Page) -> None:
    settled(page, "index.html")
    page.get_by_role("link", name="which claims of the papers hold").click()
    page.wait_for_url("**/claims.html")
    assert "the paper says" in page.locator("main th").first.inner_text()
    page.get_by_role("link", name="studies on real data").first.click()
    page.wait_for_url("**/real-data.html")
    assert page.locator("main td a").count() == len(texts.studies())


def test_pages_of_studies_fit_a_phone_and_fold_their_tables(page: Page) -> None:
    page.set_viewport_size(SIZES["phone"])
    for name in ("claims.html", *texts.studies().values()):
        settled(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"]["width"], name
    settled(page, "study-kodak.html")
    assert page.locator("main details").count() == 4
    assert page.locator("main p > strong").first.inner_text().startswith("Rotate holds best: ")
    page.get_by_text("Defenses by the worst attack on each image").click()
    assert page.locator("main td", has_text="rotate").first.is_visible()
    assert page.get_by_text("<details>").count() == 0


def test_long_tables_are_folded_and_superscripts_are_raised() -> None:
    source = "\n".join(["| a |", "|---|", *(f"| {i}<sup>a</sup> <b>x</b> |" for i in range(30))])
    html = texts._html(texts._reader().parse(source), texts.CLAIMS, "Title & more")
    assert "<summary>Table of 30 rows</summary>" in html
    assert "<sup>a</sup>" in html
    assert "&lt;b&gt;" in html
    assert 'aria-label="Table 1, Title &amp; more"' in html


def test_both_measures_behind_a_defense_are_raised_and_linked_to_the_glossary() -> None:
    html = texts.finished("<main><p>A high R^D, a low D^D</p></main>", "../")
    assert [re.sub("<.*?>", "", match) for match in re.findall(r'<a class="term".*?</a>', html)] == ["RD", "DD"]
    assert "R<sup>D</sup>" in texts.finished("<main><th>R^D</th></main>", "")

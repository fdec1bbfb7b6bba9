"""What people click: real headless Chromium, the network blocked but for the site itself."""

import json
import math
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.comparing import compare

from imharness.statistics.head_to_head import head_to_head
from imharness.statistics.wilcoxon import resolution, wilcoxon_greater

from .browsing import SIZES, on_site, read, settled
from .conftest import ENTRIES, EVIL, PHOTOGRAPHS, paired

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
GUIDELINES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']"
AXE_RUN = {
    "desk": {
        "light": f"axe.run({{runOnly: {GUIDELINES}, resultTypes: ['violations']}})",
        "dark": "axe.run({runOnly: {type: 'rule', values: ['color-contrast']}, resultTypes: ['violations']})",
    },
    "phone": {
        "light": (
            f"axe.run({{runOnly: {GUIDELINES}, resultTypes: ['violations'],"
            " rules: {'color-contrast': {enabled: false}}})"
        )
    },
}
"""Size -> theme -> a call of axe. Contrasts take axe most of its time, and are looked at on the wide page alone, in
both themes: a narrow page changes no colour, and the dark theme changes colours alone."""
ALIKE = """() => {
  const seen = {};
  for (const row of document.querySelectorAll("main table tbody tr, main dl > div")) {
    const looks = (e) => [e.tagName, e.getAttribute("class"), e.getAttribute("style")].join(".");
    const parts = [...row.querySelectorAll("*")].map(looks);
    const list = row.closest("table, dl");
    const shape = [list.dataset.table, list.className, row.className, ...parts].join(" ");
    seen[shape] = (seen[shape] || 0) + 1;
    if (seen[shape] > 4) { row.remove(); }
  }
}"""
"""Leaves four of all rows in a table or a list of facts that have the same elements, classes and styles: contrasts
of thousands of words take axe most of its time."""
OPENED = "() => [...document.querySelectorAll('.more-row')].every((row) => row.textContent !== 'Loading …')"
"""True when no row of details is loading any more."""
KINDS = ("index.html", "acme--evil.html", "plain.html", "acme--evil/main.html", "acme--evil/wins.html",
         "plain/many.html", "acme--evil/gallery.html", "entries/defense-acme--blur.html",
         "entries/defense-harness--none.html", "contest/contest.html", "methods.html",
         "changes.html", "data.html", "compare.html", "contest.html", "contest.html?attacker=aware", "cite.html",
         "submit.html", "guide-audit.html", "claims.html", "study-orl.html", "contest/findings.html",
         "contest/studies.html", "contest/details/contest-harness--none.html")  # fmt: skip
"""One page of each kind."""


def test_a_narrow_page_hides_nothing_and_changes_no_colour() -> None:
    sheet = (files("imharness_leaderboard") / "static" / "style.css").read_text()
    narrow = re.findall(r"@media \(max-width: [^{]+\{((?:[^{}]*\{[^{}]*\})*)", sheet)
    assert len(narrow) == sheet.count("@media (max-width") == 3
    named = {name for rules in narrow for name in re.findall(r"([\w-]+):", re.sub(r"[^{}]*\{", "", rules))}
    assert "font-size" in named
    assert not [name for name in named if re.search("color|background|opacity|display|visibility|filter|^--", name)]


def test_axe_finds_nothing_and_nothing_runs_off_the_page(page: Page) -> None:
    """Each page is loaded once, on the narrow screen: only scripts of tables with many rows look at the width."""
    problems = []
    for name in KINDS:
        page.set_viewport_size(SIZES["phone"])
        settled(page, name)
        if page.evaluate("document.documentElement.scrollWidth") > SIZES["phone"]["width"]:
            problems.append(f"{name}, phone, with details closed, is too wide")
        page.evaluate("document.querySelectorAll('main details').forEach((d) => { d.open = !d.closest('.tools'); })")
        if "?" not in name:  # with it, the details are those of a page that was looked at before
            page.evaluate("document.querySelectorAll('a.open').forEach((link) => link.click())")
        read(page)
        page.wait_for_function(OPENED)
        for size in ("phone", "desk"):
            page.set_viewport_size(SIZES[size])
            for theme in ("dark", "light"):
                page.emulate_media(color_scheme=theme)
                width = page.evaluate("document.documentElement.scrollWidth")
                if width > SIZES[size]["width"]:
                    problems.append(f"{name}, {size}, {theme}, is {width} px wide")
        page.evaluate(ALIKE)
        page.evaluate(AXE)
        for size, theme in (("desk", "light"), ("desk", "dark"), ("phone", "light")):
            page.emulate_media(color_scheme=theme)
            if size == "phone":
                page.set_viewport_size(SIZES[size])
            results = page.evaluate(AXE_RUN[size][theme])
            problems += [
                f"{name}, {size}, {theme}: {v['id']} {v['nodes'][0]['html'][:120]} "
                f"{v['nodes'][0]['failureSummary'][:200]}"
                for v in results["violations"]
            ]
    assert problems == []


def first_column(page: Page, table: str) -> list[str]:
    return page.locator(f"table[data-table='{table}'] tbody th[scope=row]").all_inner_texts()


def test_sorting_filtering_facets_columns_and_intervals_are_kept_in_the_address(page: Page) -> None:
    settled(page, "acme--evil.html")
    table = page.locator("table[data-table=main]")
    tools = page.get_by_role("group", name=re.compile("Tools of"))
    assert [text.strip() for text in first_column(page, "main")] == list(ENTRIES)
    head = table.get_by_role("button", name="D , lower is better")
    head.click()
    assert [text.strip() for text in first_column(page, "main")] == list(ENTRIES)
    head.click()
    assert [text.strip() for text in first_column(page, "main")] == list(reversed(ENTRIES))
    tools.first.get_by_role("searchbox").fill("acme")
    assert [text.strip() for text in first_column(page, "main")] == ["acme/none", "acme/blur[radius=2]", "acme/blur"]
    tools.first.get_by_role("combobox").select_option("filter")
    assert [text.strip() for text in first_column(page, "main")] == ["acme/blur[radius=2]", "acme/blur"]
    assert "2 of 4 rows" in tools.first.inner_text()
    assert not table.locator(".more").first.is_visible()
    tools.first.get_by_role("button", name="Intervals").click()
    assert table.locator(".more").first.is_visible()
    tools.first.locator("summary", has_text="Columns").click()
    tools.first.get_by_role("checkbox", name="Family").uncheck()
    assert not table.locator("td.facet").first.is_visible()
    expect(page).to_have_url(re.compile("hide"))
    link = page.url
    settled(page, "about:blank")
    settled(page, link)
    assert [text.strip() for text in first_column(page, "main")] == ["acme/blur[radius=2]", "acme/blur"]
    assert table.locator(".more").first.is_visible()
    assert not table.locator("td.facet").first.is_visible()


def test_missing_numbers_stay_last_whichever_way_a_column_is_sorted(page: Page) -> None:
    settled(page, "acme--evil/main.html")
    head = page.locator("table[data-table=main] thead th").nth(3).locator("button")
    for _ in range(2):
        head.click()
        assert page.locator("table[data-table=main] tbody tr").first.locator("td[data-v]").count() == 2


def test_a_table_is_copied_in_three_forms(page: Page) -> None:
    settled(page, "acme--evil/main.html")
    page.locator("summary", has_text="Copy").click()
    for form, wanted in (
        ("CSV", '"acme/blur[radius=2]","filter","2.250","–"'),
        ("Markdown", "| acme/blur\\[radius=2\\] | filter | 2.250 | – |"),
        ("LaTeX", r"acme/blur[radius=2] & filter & 2.250 {\scriptsize [1.000, 2.500]} & -- \\"),
    ):
        page.get_by_role("button", name=form, exact=True).click()
        page.get_by_role("button", name=f"{form} copied").wait_for()
        assert wanted in page.evaluate("navigator.clipboard.readText()").splitlines()


def test_a_column_name_cannot_break_out_of_a_copy(page: Page) -> None:
    settled(page, "acme--evil/main.html")
    page.locator("summary", has_text="Copy").click()
    page.get_by_role("button", name="Markdown", exact=True).click()
    page.get_by_role("button", name="Markdown copied").wait_for()
    assert "<script>" not in page.evaluate("navigator.clipboard.readText()")


def test_of_two_thousand_rows_the_page_holds_those_in_sight(page: Page) -> None:
    settled(page, "plain/many.html")
    assert page.locator("tbody tr").count() < 150
    assert "2000 rows" in page.locator(".tools").inner_text()
    pane = page.locator(".scroll")
    pane.evaluate("(pane) => { pane.scrollTop = pane.scrollHeight / 2; }")
    page.get_by_role("rowheader", name="acme/entry-01000").wait_for()
    page.get_by_role("button", name="value").click()
    assert first_column(page, "many")[0].strip() == next(
        f"acme/entry-{i:05d}" for i in range(2000) if i * 7919 % 2000 == 1999
    )
    page.get_by_role("searchbox").fill("entry-01321")
    assert [text.strip() for text in first_column(page, "many")] == ["acme/entry-01321"]


def test_without_scripts_every_table_reads_whole(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=address)
    opened = context.new_page()
    opened.goto("plain/many.html")
    assert opened.locator("tbody tr").count() == 2000
    assert opened.locator("tbody .more").first.is_visible()
    opened.goto("compare.html")
    assert "needs JavaScript" in opened.locator("main").inner_text()
    context.close()


def test_dark_mode_is_remembered_and_swaps_the_pictures(page: Page) -> None:
    settled(page, "acme--evil.html")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    assert page.locator("img.in-light").first.is_visible()
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(background) != light
    assert not page.locator("img.in-light").first.is_visible()
    assert page.locator("img.in-dark").first.is_visible()
    settled(page, "index.html")
    assert page.evaluate(background) != light


def test_pictures_and_gallery_images_load(page: Page) -> None:
    for name in ("acme--evil.html", "acme--evil/gallery.html"):
        settled(page, name)
        page.evaluate("document.querySelectorAll('img').forEach((i) => { i.loading = 'eager'; })")
        page.wait_for_function("() => [...document.images].every((i) => i.complete)")
        visible = page.locator("img:visible")
        assert visible.count() >= 2
        assert all(visible.nth(i).evaluate("(i) => i.complete && i.naturalWidth > 0") for i in range(visible.count()))
    page.get_by_role("button", name="Difference").click()
    assert page.locator("img.under").first.is_visible()


def test_a_file_is_downloaded(page: Page) -> None:
    settled(page, "acme--evil/main.html")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV").click()
    assert Path(waiting.value.path()).read_text().startswith("defense,")


def test_rows_are_picked_and_compared(page: Page) -> None:
    settled(page, "acme--evil.html")
    page.locator("table[data-table=main]").get_by_role("checkbox", name="Compare acme/blur", exact=True).check()
    page.locator("table[data-table=main]").get_by_role("checkbox", name="Compare acme/none").check()
    page.get_by_role("link", name="Compare 2").click()
    page.locator("#result table").first.wait_for()
    assert list(raw(page)) == [("acme/blur", "acme/none")]
    beside = page.locator("table.side")
    assert beside.locator("thead").inner_text().split() == ["Measure", "acme/blur", "acme/none"]
    assert beside.locator("tbody tr").first.inner_text().split("\t") == [
        "D",
        "1.250 (1.000 to 1.500)",
        "3.250 (1.000 to 3.500)",
    ]


def raw(page: Page) -> dict[tuple[str, str], dict]:
    page.locator("#result table").first.wait_for()
    read(page)
    rows = page.locator("#result tr[data-pair]")
    return {
        tuple(json.loads(rows.nth(i).get_attribute("data-pair"))): json.loads(rows.nth(i).get_attribute("data-raw"))
        for i in range(rows.count())
    }


def assert_equal(page_numbers: dict, first: str, second: str, conditions: list[int] | None, **facts) -> None:
    comparison, numbers = paired(**facts).stored()
    result = compare(comparison, numbers, first, second, conditions)
    assert (page_numbers["n"], page_numbers["clusters"]) == (result.difference.n, result.difference.clusters)
    for key, wanted in (("better", result.better), ("worse", result.worse)):
        assert page_numbers[key] == pytest.approx(wanted, rel=1e-10)
    assert page_numbers["effect"] == pytest.approx(result.effect, rel=1e-10, abs=1e-12)
    for key_name in ("value", "low", "high"):
        wanted = getattr(result.difference, key_name)
        page_value = np.nan if page_numbers["difference"][key_name] is None else page_numbers["difference"][key_name]
        assert page_value == pytest.approx(wanted, rel=1e-9, abs=1e-12, nan_ok=True)


def test_readers_get_the_numbers_of_the_python_side(page: Page) -> None:
    settled(page, "compare.html")
    for label in ENTRIES:
        page.locator("#entries").get_by_role("checkbox", name=label, exact=True).check()
    expect(page.locator("#result tr[data-pair]")).to_have_count(6)
    pairs = raw(page)
    for (first, second), numbers in pairs.items():
        assert_equal(numbers, first, second, None)
    comparison, numbers = paired().stored()
    size = len(comparison.entries)
    assert f"corrected for {size * (size - 1)} tests" in page.locator("#result").inner_text()
    first = page.locator("#result tr[data-pair]").first
    before = first.get_attribute("data-raw")
    page.locator("#conditions").get_by_role("checkbox", name=EVIL).uncheck()
    expect(first).not_to_have_attribute("data-raw", before or "")
    expect(page).to_have_url(re.compile("without"))
    indices = [i for i, c in enumerate(comparison.conditions) if c.facets["attack"] != EVIL]
    for (first, second), numbers in raw(page).items():
        assert_equal(numbers, first, second, indices)
    link = page.url
    settled(page, "index.html")
    settled(page, link)
    for (first, second), numbers in raw(page).items():
        assert_equal(numbers, first, second, indices)


def test_readers_see_each_photograph_once(page: Page) -> None:
    settled(page, "compare.html")
    page.get_by_label("What is compared").select_option(label="Plain track: Who beats whom")
    for label in ENTRIES:
        page.locator("#entries").get_by_role("checkbox", name=label, exact=True).check()
    expect(page.locator("#result tr[data-pair]")).to_have_count(6)
    pairs = raw(page)
    for (first, second), numbers in pairs.items():
        assert_equal(numbers, first, second, None, clusters=PHOTOGRAPHS)
    assert "15 of 7 photographs" in page.locator("#result table").first.inner_text()
    assert "tests and intervals take each photograph as one" in page.locator("#result").inner_text()


@pytest.mark.parametrize(
    ("n", "step"), [(1, 0.1), (9, 0.5), (13, 1), (13, 0.01), (25, 1), (30, 0.001), (50, 1e-6), (60, 0.2), (400, 1e-6)]
)
def test_the_page_s_statistics_equal_python_s(page: Page, n: int, step: float) -> None:
    rng = np.random.default_rng(n)
    d = (np.round(rng.normal(0.2, 1, n) / step) * step).astype(np.float32).astype(float)
    on_site(page)
    script = (
        "async (d) => { const s = await import('/statistics.js');"
        " return [s.wilcoxonGreater(d), s.wilcoxonGreater(d.map((x) => -x)), s.rankBiserial(d)]; }"
    )
    better, worse, effect = page.evaluate(script, d.tolist())
    for p_value, wanted in ((better, wilcoxon_greater(d[None])[0]), (worse, wilcoxon_greater(-d[None])[0])):
        assert (math.isnan(wanted) and p_value is None) or p_value == pytest.approx(wanted, rel=1e-9)
    assert effect == pytest.approx(head_to_head(d, alpha=0.05).effect, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("size", [3, 8, 30])
def test_the_page_s_test_by_cluster_equals_python_s(page: Page, size: int) -> None:
    rng = np.random.default_rng(size)
    names = rng.integers(0, size, 90)
    d = rng.normal(0.2, 1, 90).round(1).astype(np.float32).astype(float)
    on_site(page)
    script = (
        "async ([d, names]) => { const s = await import('/statistics.js');"
        " return [s.clustersGreater(d, names), s.rankBiserial(s.clusterMeans(d, names))]; }"
    )
    better, effect = page.evaluate(script, [d.tolist(), names.tolist()])
    wanted = head_to_head(d, names, alpha=0.05)
    assert np.nan if better is None else better == pytest.approx(wanted.better, rel=1e-9, nan_ok=True)
    assert effect == pytest.approx(wanted.effect, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("clusters", [0, 12])
def test_the_page_finds_the_ties_of_stored_shares_that_python_finds(page: Page, clusters: int) -> None:
    """Shares of 70 pairs under two conditions, 40 images: mean differences have many ties, which 32 bits tell apart."""
    rng, units = np.random.default_rng(clusters), 40
    counts = np.clip(rng.integers(10, 60, (1, 2 * units)) + rng.integers(-6, 8, (2, 2 * units)), 0, 70)
    stored, names = (counts / 70 * 100).astype(np.float32), rng.permutation(np.arange(units) % (clusters or units))
    index = {
        "better": "higher",
        "units": [f"u{i}" for i in range(units)],
        "unit_sets": [list(range(units))],
        "conditions": [{"facets": {"metric": metric}, "units": 0} for metric in "ab"],
        "starts": [0, units],
        "over": [],
        "clusters": names.tolist() if clusters else [],
        "weights": [],
        "pairwise_alpha": 0.05,
        "value_range": 1,
    }
    on_site(page)
    script = (
        "async ([index, a, b]) => { const s = await import('/statistics.js');"
        " const r = s.headToHead(index, Float32Array.from(a), Float32Array.from(b), [0, 1]);"
        " return [r.better, r.worse, r.effect, r.ahead]; }"
    )
    exact = (counts[0] - counts[1]).reshape(2, units).sum(axis=0)
    on_page = page.evaluate(script, [index, *stored.astype(float).tolist()])
    gaps = (stored[0].astype(float) - stored[1]).reshape(2, units).mean(axis=0)
    clusters_of = names if clusters else None
    for d, near in ((gaps, resolution(stored).max()), (exact, 1e-9)):
        wanted = head_to_head(d, clusters_of, alpha=0.05, nearest=near)
        assert on_page[:3] == pytest.approx([wanted.better, wanted.worse, wanted.effect], rel=1e-9)
    if not clusters:
        assert head_to_head(gaps, alpha=0.05).better != pytest.approx(on_page[0], rel=1e-9)


def test_the_first_page_is_light_and_does_not_shift(new_page: Page) -> None:
    page, sizes = new_page, []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.add_init_script(
        "window.shift = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => { window.shift += e.value; }))"
        ".observe({type: 'layout-shift', buffered: true});"
    )
    settled(page, "index.html")
    page.wait_for_timeout(300)
    assert 0 < sum(sizes) < 200_000
    assert page.evaluate("window.shift") == 0
    settled(page, "acme--evil.html")
    page.wait_for_timeout(300)
    assert page.evaluate("window.shift") < 0.1


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    settled(page, "acme--evil.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    head = page.locator("table[data-table=main] thead button").nth(2)
    head.focus()
    page.keyboard.press("Enter")
    assert page.locator("table[data-table=main] thead th").nth(2).get_attribute("aria-sort") == "ascending"
    page.locator("summary", has_text="Columns").first.focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("checkbox", name="Family").first.is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("checkbox", name="Family").first.is_visible()

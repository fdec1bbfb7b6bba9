"""Groups of the rows of a ranking, what rows say beside their numbers, and several rankings as tabs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from imharness.documents.entries import Entry
from imharness.documents.rankings import Against, Place, Ranking
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.results.store import Store
from imharness_leaderboard.names import spelled_measure
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.ranking_rows import groups_of, unseparated, year_of
from imharness_leaderboard.rankings import BAR, RankingView, ranking_views, worst_words
from imharness_leaderboard.scores import Scores, worst_case

from .browsing import opened, served, settled, watched
from .conftest import sample_leaderboard
from .contested import FLIP, JPEG, NONE, report, without_pictures


def ranked(verdicts: dict[str, str], near: tuple[str, ...] = ()) -> tuple[Table, Ranking]:
    """Return a ranking of entry -> verdict: better, undecided, worse, barred or control."""
    places = {
        label: Place(
            control="no defense" if verdict == "control" else "",
            complete=True,
            gate="fails" if verdict == "barred" else "passes",
            front=False,
            broken_by={},
            against=Against(value=0.0, units=12, verdict=verdict)
            if verdict in ("better", "undecided", "worse")
            else None,
        )
        for label, verdict in verdicts.items()
    }
    column = ColumnSpec(key="worst", label="D", description="D", better="lower")
    rows = tuple(Row(label=label, values={"worst": Value(value=1.0)}) for label in verdicts)
    table = Table(id="t", title="t", caption="c", entry="defense", columns=(column,), rows=rows)
    ranking = Ranking(
        table="t",
        comparison="c",
        over=(),
        attack="attack",
        attacker="attacker",
        unaware="fixed",
        undefended="none",
        gate=None,
        share=0.05,
        places=places,
        first=next(iter(verdicts)),
        winner="",
        not_behind=near,
        claim="It leads.",
    )
    return table, ranking


def test_a_group_of_those_shown_to_be_worse_never_breaks_the_order_of_ranks() -> None:
    verdicts = {"a": "better", "b": "worse", "c": "undecided", "d": "worse", "e": "worse", "f": "barred"}
    groups = groups_of(*ranked({**verdicts, "none": "control"}))
    assert [groups[label] for label in "abcdef"] == ["eligible"] * 3 + ["worse", "worse", "barred"]
    assert groups["none"] == "control"
    assert set(groups_of(*ranked({"a": "worse", "b": "worse"})).values()) == {"worse"}
    assert set(groups_of(*ranked({"a": "barred"})).values()) == {"barred"}


def test_the_bracket_holds_those_that_may_win_and_are_not_separated_from_the_first() -> None:
    _, ranking = ranked({"a": "better", "b": "undecided", "c": "barred", "none": "control"}, ("b", "none"))
    assert unseparated(ranking) == ("a", "b")
    assert unseparated(ranking.model_copy(update={"first": ""})) == ()


def test_a_row_has_the_year_of_its_paper() -> None:
    def entry(paper: str) -> Entry:
        return Entry(kind="defense", id="a/b", label="a/b", version="1", paper=paper)

    assert year_of([entry("Nie et al.: Diffusion Models for Adversarial Purification (2022)")]) == "2022"
    assert year_of([entry("LeCun (1998)"), entry("Abadi et al.: Deep Learning (2016)")]) == "2016"
    assert year_of([entry(""), entry("In preparation")]) == ""


def test_what_no_attack_changes_survives() -> None:
    assert worst_words("no attack", 0.84) == "84% survive"
    assert worst_words("I-FGSM", 0.5) == "I-FGSM, 50%"


def test_a_further_measure_has_a_column_of_its_worst_case() -> None:
    original = report()
    comparison, numbers = original.comparisons[0].stored()
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=())
    further = comparison.model_copy(update={"id": "other", "measure": "share recognised"})
    ranking = original.rankings[0].model_copy(update={"secondary_measures": (comparison.id, "other")})
    leaderboard = leaderboard.model_copy(update={"rankings": (ranking,)})
    scores = [Scores(leaderboard, comparison, numbers), Scores(leaderboard, further, numbers)]
    (view,) = ranking_views(leaderboard, scores, (), "")
    (column,) = view.further
    means = worst_case(comparison, numbers, ranking, range(len(comparison.conditions)))
    wanted = {label: f"{mean:.2f}" for label, mean in zip(comparison.entries, means, strict=True)}
    assert column.label == "share recognised"
    assert {label: column.texts[label] for label in (JPEG, FLIP, NONE)} == {
        label: wanted[label] for label in (JPEG, FLIP, NONE)
    }
    spec = ColumnSpec(key="tpr", label="TPR", description="d", better="lower", decimals=1)
    table = original.tables[0]
    wide = table.model_copy(update={"columns": (*table.columns, spec)})
    view = RankingView(leaderboard, ranking, wide, None, (), "")
    assert [column.label for column in view.further] == ["TPR"]
    assert view.further[0].texts[JPEG] == "–"


def test_bars_of_all_rows_are_as_long_as_their_numbers_are_large() -> None:
    original = report()
    comparison, numbers = original.comparisons[0].stored()
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=())
    (view,) = ranking_views(leaderboard, [Scores(leaderboard, comparison, numbers)], (), "")
    bars = [bar for row in view.rows for bar in row.bars]
    longest = max(float(bar.value) for bar in bars)
    assert [bar.length for bar in bars] == pytest.approx([BAR * float(bar.value) / longest for bar in bars], abs=0.3)


def test_the_attack_that_is_the_worst_most_often_stands_first() -> None:
    table, ranking = ranked({"a": "better", "b": "undecided"})
    shares = {"a": {"acme/rare": 0.2, "acme/usual": 0.4}, "b": {"acme/often": 0.5, "acme/usual": 0.5}}
    places = {
        label: standing.model_copy(update={"broken_by": shares[label]}) for label, standing in ranking.places.items()
    }
    leaderboard = sample_leaderboard(tables=(table,), rankings=(ranking,), charts=())
    view = RankingView(leaderboard, ranking.model_copy(update={"places": places}), table, None, (), "")
    assert view.attacks == ["acme/usual", "acme/often", "acme/rare"]


def test_the_legend_says_what_hollow_dots_are_where_any_row_has_one() -> None:
    table, ranking = ranked({"a": "better", "b": "undecided"})
    leaderboard = sample_leaderboard(tables=(table,), rankings=(ranking,), charts=())
    spec = ColumnSpec(key="unaware", label="D", description="By D. The attacker knows nothing.", better="lower")
    some, none = (
        table.model_copy(
            update={
                "columns": (*table.columns, spec),
                "rows": tuple(
                    row.model_copy(update={"values": {**row.values, "unaware": number}})
                    for row, number in zip(table.rows, numbers, strict=True)
                ),
            }
        )
        for numbers in ((Value(value=1.0), Value(missing="none")), (Value(missing="none"), Value(missing="none")))
    )
    views = [RankingView(leaderboard, ranking, version, None, (), "") for version in (some, none, table)]
    assert [view.hollow for view in views] == ["the attacker knows nothing", "", ""]


def test_a_measure_begins_with_one_capital() -> None:
    assert spelled_measure("balanced accuracy, worst attack") == "Balanced accuracy, worst attack"


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site of a track with two rankings; the second compares with L2, and has one more column."""
    folder = tmp_path_factory.mktemp("twice")
    store, original = Store(folder / "store"), report()
    table, ranking = original.tables[0], original.rankings[0]
    further = ColumnSpec(key="tpr", label="TPR at 1% FPR of members", description="d", better="lower", decimals=1)
    other = table.model_copy(
        update={
            "id": "other",
            "title": "Defenses against a malicious server",
            "columns": (*table.columns, further),
            "rows": tuple(
                row.model_copy(update={"values": {**row.values, "tpr": Value(value=12.5)}}) for row in table.rows
            ),
        }
    )
    second = ranking.model_copy(update={"table": "other", "claim": "Nothing is shown yet.", "baseline_name": "L2"})
    comparison, numbers = original.comparisons[0].stored()
    leaderboard = sample_leaderboard(
        track="harness/twice",
        title="Twice",
        tables=(table, other),
        rankings=(ranking, second),
        comparisons=(comparison,),
        charts=(),
    )
    write_leaderboard(store, leaderboard, {comparison.id: numbers})
    with without_pictures():
        build_site(Path(folder / "store"), folder / "site")
    with served(folder / "site") as address:
        yield address


def test_rankings_are_tabs_with_their_headlines(browser: Browser, twice: str) -> None:
    for opened_page in opened(browser, twice):
        for page in watched(opened_page, twice):
            settled(page, "twice.html")
            tabs = page.get_by_role("tab")
            expect(tabs).to_have_count(2)
            assert "Nothing is shown yet." in tabs.nth(1).inner_text()
            assert shown_tables(page) == ["ranking-contest"]
            tabs.nth(1).click()
            assert shown_tables(page) == ["ranking-other"]
            assert page.locator("#ranking-other").bounding_box()["y"] < 900, "nothing lies far below"
            page.keyboard.press("ArrowLeft")
            assert shown_tables(page) == ["ranking-contest"]
            page.go_back()
            assert shown_tables(page) == ["ranking-other"]
            settled(page, "about:blank")
            settled(page, "twice.html#ranking-other")
            assert shown_tables(page) == ["ranking-other"]


def test_what_entries_are_compared_with_has_its_name_everywhere(browser: Browser, twice: str) -> None:
    table = report(baseline=JPEG, controls={NONE: "undefended", JPEG: "a plain filter"}).tables[0]
    assert next(column.label for column in table.columns if column.key == "gain") == "against JPEG"
    for opened_page in opened(browser, twice):
        for page in watched(opened_page, twice):
            settled(page, "twice.html")
            lines = page.locator("svg.axis text.plain").all_text_contents()
            assert lines == ["no defense", "L2"]
            assert "the solid one no defense" in page.locator(".contest:visible").inner_text()
            page.get_by_role("tab").nth(1).click()
            assert "the solid one L2" in page.locator(".contest:visible").inner_text()


def test_a_ranking_with_a_further_column_is_as_wide_as_its_screen(browser: Browser, twice: str) -> None:
    for opened_page in opened(browser, twice):
        for page in watched(opened_page, twice):
            settled(page, "twice.html#ranking-other")
            details = page.locator("#ranking-other a.open").first.get_attribute("href")
            for name in ("twice.html#ranking-other", details):
                settled(page, name)
                for width in (320, 768, 1280):
                    page.set_viewport_size({"width": width, "height": 900})
                    assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)


def shown_tables(page: Page) -> list[str]:
    return page.locator("table.ranking:visible").evaluate_all("(all) => all.map((one) => one.id)")


def test_without_scripts_the_tabs_are_links_to_rankings_below_each_other(browser: Browser, twice: str) -> None:
    context = browser.new_context(java_script_enabled=False, base_url=twice)
    page = context.new_page()
    page.goto("twice.html")
    assert shown_tables(page) == ["ranking-contest", "ranking-other"]
    page.locator(".tabs a").nth(1).click()
    assert page.url.endswith("#table-other")
    context.close()

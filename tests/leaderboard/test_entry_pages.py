"""An entry's page says what it is, how it did, what broke it, and how to run, reproduce and cite it."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

from playwright.sync_api import Page, expect

from imharness.contracts.component import SELECTABLE
from imharness.documents.entries import Entry, Standing
from imharness.documents.naming import brief
from imharness_leaderboard import citations
from imharness_leaderboard.citations import bibtex, cff, entry_citation, tex
from imharness_leaderboard.entries import entry_views
from imharness_leaderboard.tables import shown

from .browsing import settled
from .conftest import EVIL, sample_leaderboard
from .contested import JPEG, MEDIAN, NOISE, NONE, PURIFIER, report


def contest_leaderboard():
    original = report()
    return sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=(), entries=())


def text_of(built: Path, label: str) -> str:
    leaderboard = contest_leaderboard()
    page_of = entry_views([leaderboard], {})["defense", label].page
    markup = re.sub(r"<[^>]+>", " ", (built / page_of).read_text().split("<main")[1].replace("<wbr>", ""))
    return re.sub(r"\s+", " ", unescape(markup))


def test_a_page_says_what_the_ranking_says(built: Path) -> None:
    leaderboard = contest_leaderboard()
    (ranking,), main = leaderboard.rankings, leaderboard.tables[0]
    columns = {column.key: column for column in main.columns}
    for row in main.rows:
        text, position = text_of(built, row.label), ranking.places[row.label]
        rank = row.values["rank"]
        if position.eligible:
            assert f"{rank.value:.0f} ({rank.low:.0f} to {rank.high:.0f}) of 2" in text
        assert (rank.value is None) == (not position.eligible)
        for key in ("worst", "unaware", "aware", "utility"):
            assert f"{columns[key].label} {shown(row.values[key], columns[key])} " in text
        for attack, share in position.broken_by.items():
            assert f"{brief(attack)} {100 * share:.0f}%" in text
        assert ("It wins: " in text) == (row.label == ranking.winner == JPEG)
        assert ("loses; SROCC clean, within 5% of No defense: -0.245 [" in text) == (row.label == MEDIAN)
        assert ("an upper bound: more steps lowered the attack's success" in text) == (row.label == NOISE)
        assert ("is incomplete: it was measured in" in text) == (row.label == PURIFIER)
        assert ("It is a control (undefended)" in text) == (row.label == NONE)
        assert "Proxies: labels by a formula" in text


def test_an_entry_is_shown_in_every_track_that_it_takes_part_in() -> None:
    first, second = (
        contest_leaderboard(),
        contest_leaderboard().model_copy(update={"track": "acme/other", "title": "Other"}),
    )
    view = entry_views([first, second], {})["defense", JPEG]
    assert [result.leaderboard.title for result in view.results] == ["Evil track", "Other"]


def test_an_entry_of_several_rankings_appears_once_for_a_track() -> None:
    leaderboard = contest_leaderboard()
    tables = (*leaderboard.tables, leaderboard.tables[0].model_copy(update={"id": "family"}))
    rankings = (*leaderboard.rankings, leaderboard.rankings[0].model_copy(update={"table": "family"}))
    view = entry_views([leaderboard.model_copy(update={"tables": tables, "rankings": rankings})], {})["defense", JPEG]
    assert len(view.appearances) == 1
    assert len(view.results) == 2


def test_readers_get_in_two_clicks_from_a_table_to_what_broke_an_entry_and_to_its_images(page: Page) -> None:
    for target, wanted in (
        ("What broke it", "I-FGSM"),
        ("Images", "defended"),
        ("Cite", "@misc"),
        ("Run and reproduce", "harness run --track"),
    ):
        settled(page, "contest/contest.html")
        page.locator("tbody").get_by_role("link", name=re.compile("^Flip")).click()
        page.get_by_role("navigation", name="On this page").get_by_role("link", name=target).click()
        section = page.locator(page.evaluate("location.hash"))
        section.get_by_text(wanted).first.wait_for()
        expect(section).to_be_in_viewport()


def test_a_row_is_computed_again_with_the_filters_that_find_its_tasks() -> None:
    assert tuple(SELECTABLE) == citations.SELECTABLE
    leaderboard = sample_leaderboard(
        command="harness run --all --profile sweep.toml", track="acme/t", limit=None, seed=3
    )
    components = [("model", "acme/net"), ("defense", "acme/d[a=1,b=(2, 3)]")]
    assert shlex.split(citations.compute_again(leaderboard, components)) == [
        "harness",
        "run",
        "--track",
        "acme/t",
        "--profile",
        "sweep.toml",
        "--seed",
        "3",
        "--model",
        "acme/net",
        "--defense",
        "acme/d[a=1,b=(2, 3)]",
        "--store",
        "again",
        "--site",
        "again-site",
    ]
    assert (
        citations.compute_again(leaderboard, [("defense", "acme/a, stopped nearest to the accuracy of acme/b")])
        == leaderboard.command
    )
    assert citations.compute_again(leaderboard, []) == leaderboard.command
    assert "'; rm -rf /" not in citations.compute_again(leaderboard, [("defense", "acme/d['; rm -rf /]")]).replace(
        "'\"'\"'", ""
    )


def test_a_submission_is_checked_by_its_name() -> None:
    standing = (Standing(date="2026-01-01", decision="added", reason="", submission="mine"),)
    entry = Entry(kind="defense", id="a/b", label="a/b[c=1]", version="1", tasks=3)
    assert citations.check(entry) == "harness reproduce a/b --store STORE"
    assert citations.check(entry.model_copy(update={"standing": standing})) == "harness reproduce mine --store STORE"
    assert citations.check(None) == ""


def test_the_line_of_a_page_gives_the_published_numbers(ran: Path, tmp_path: Path, harness_here, no_site: None) -> None:
    """The line is taken from the page as a reader takes it, and its numbers are those of the first run."""
    html = (ran / "site" / "entries" / "metric-harness--psnr.html").read_text()
    lines = [unescape(line) for line in re.findall(r"<code>(harness run [^<]+)</code>", html)]
    assert len(lines) == 1
    again = harness_here(*shlex.split(lines[0])[1:], "--workers", "0", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    rows = [
        {
            row["label"]: row["values"]
            for row in json.loads((folder / "leaderboards" / "harness--perceptual.json").read_text())["tables"][0][
                "rows"
            ]
        }
        for folder in (ran / "store", tmp_path / "again")
    ]
    assert list(rows[1]) == ["harness/psnr"]
    same = [key for key, value in rows[1]["harness/psnr"].items() if value == rows[0]["harness/psnr"].get(key)]
    assert {"rank", "behind"} | set(same) >= set(rows[1]["harness/psnr"])
    assert same


ODD = 'A {brace}, 100% & "x" \\ #1_2 ~^$ <b>\nline'


def balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += (c == "{") - (c == "}")
        if depth < 0:
            return False
    return depth == 0


def test_bibtex_is_balanced_and_escaped() -> None:
    assert tex("100% {a}_b\n c") == r"100\% \textbraceleft{}a\textbraceright{}\_b c"
    entry = Entry(
        kind="defense",
        id="a/b",
        label="a/b",
        version="2",
        author=ODD,
        home="javascript:alert(1)",
        package="acme",
        package_version="1",
        paper="One, Two & Three: On {Things} (2020)",
        paper_url="https://example.org/a_b",
    )
    citation = entry_citation("defense", "a/b", entry, ["place 1 (1 to 2) of 3 in T"], "r1", "2026-11-22").bibtex
    assert citation.count("@misc{") == 2
    assert balanced(citation)
    assert not re.search(r"(?<!\\)[%&#$]", citation)
    assert "javascript" not in citation
    assert "release r1" in citation.lower()
    assert balanced(bibtex(sample_leaderboard(title=ODD), ODD, row=ODD, author=ODD, version=ODD))
    assert "place 1 (1 to 2) of 3 in T" in citation
    assert "author = {{One} and {Two} and {Three}}" in citation
    assert "year = {2020}" in citation


def scalars(text: str) -> dict[str, str]:
    """The scalars at the top of a CFF file; each quoted one must be JSON, which YAML contains."""
    values = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([a-z-]+): (.+)", line)
        if match:
            value = match[2]
            values[match[1]] = json.loads(value) if value.startswith('"') else value
        else:
            assert re.fullmatch(r'[a-z-]+:|  (- | {2,6})[a-z -]+:( (".*"|\d{4}|article|other))?', line), line
    return values


def test_cff_holds_release_date_and_whatever_a_name_contains() -> None:
    entry = Entry(kind="defense", id="a/b", label="a/b", version=ODD, author=ODD, paper=f"{ODD}: {ODD} (2021)")
    fields = scalars(entry_citation("defense", ODD, entry, [], "", "2026-11-22").cff)
    assert fields["cff-version"] == "1.2.0"
    assert fields["date-released"] == "2026-11-22"
    assert fields["version"] == " ".join(ODD.split())
    whole = scalars(cff([sample_leaderboard()], "r1", "2026-11-22"))
    assert (whole["version"], whole["date-released"]) == ("release r1", "2026-11-22")


def test_citations_of_the_leaderboard_and_of_each_entry_are_files(built: Path) -> None:
    pages = sorted(path.stem for path in (built / "entries").glob("*.html"))
    for form, whole in (("bib", "leaderboard"), ("cff", "CITATION")):
        assert sorted(path.stem for path in (built / "cite").glob(f"*.{form}")) == sorted([whole, *pages])
    assert (built / "cite" / "leaderboard.bib").read_text().count("@misc") == 3
    assert EVIL not in (built / "data.html").read_text()

"""What readers find by searching: pages, entries, papers, terms of the glossary, methods, tables and tracks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness_leaderboard.addresses import published_page, table_page, track_page
from imharness_leaderboard.entries import EntryView
from imharness_leaderboard.guide_pages import GUIDES
from imharness_leaderboard.methods import statistics
from imharness_leaderboard.texts import CLAIMS, ON_SITE, STUDIES, glossary, sections, studies

Found = list[str]
"""An item: its text, its kind, the address of its page, and further words by which it is found."""


PAGES = (
    ("Submit an entry", "submit.html", "submission send author package review"),
    ("Compare entries", "compare.html", "paired difference against wilcoxon p"),
    ("Methods: who wins, and how sure is it", "methods.html", "statistics rules interval wilcoxon holm winner"),
    ("Glossary", "glossary.html", "terms words definition"),
    ("Changes since the last release", "changes.html", "releases new moved version history feed"),
    ("All numbers as files", "data.html", "data download csv json parquet export release"),
    ("Cite a leaderboard or an entry", "cite.html", "citation bibtex reference release"),
    ("Credits", "credits.html", "licence source authors"),
)
"""Pages that every site has: what they are called, their address, and words by which they are found."""


def found_by_search(
    leaderboards: Sequence[Leaderboard], entries: Sequence[EntryView], papers: Sequence[Found]
) -> list[Found]:
    """Return everything that can be found; `papers` are the published ones, as `papers_of` returns them."""
    records = [[leaderboard.title, "track", track_page(leaderboard), leaderboard.track] for leaderboard in leaderboards]
    records += [[name, "page", page, words] for name, page, words in PAGES]
    records += [[guide.question, "guide", guide.page, f"{guide.name} {guide.lead}"] for guide in GUIDES]
    documents = {**{name: ON_SITE[name] for name in (CLAIMS, STUDIES)}, **studies()}
    records += [[sections(name)[0].title, "page", page, name] for name, page in documents.items()]
    records += [
        [method.title, "method", f"methods.html#{method.anchor}", " ".join(name for name, _ in method.functions)]
        for method in statistics()
    ]
    records += [[term.name, "term", f"glossary.html#{term.anchor}", ""] for term in glossary()]
    records += [[brief(view.label), view.kind, view.page, view.label] for view in entries]
    records += _methods(entries)
    records += papers
    records += [
        [brief(table.title), f"table, {leaderboard.title}", table_page(leaderboard, table), table.id]
        for leaderboard in leaderboards
        for table in leaderboard.tables
    ]
    return records


def _methods(entries: Sequence[EntryView]) -> Iterator[Found]:
    """Yield the papers of the methods that took part, each with the page of the first entry that follows it."""
    seen = set()
    for view in entries:
        paper = view.facts.paper if view.facts is not None else ""
        if paper and paper not in seen:
            seen.add(paper)
            yield [paper, f"paper of {brief(view.label)}", view.page, ""]


def papers_of(leaderboard: Leaderboard, papers: Sequence[tuple[str, str]]) -> list[Found]:
    """Return the papers whose numbers stand beside those of a leaderboard; `papers`: each in words, and its address."""
    return [
        [text, f"paper, published and ours of {leaderboard.title}", published_page(leaderboard), ""]
        for text, _ in papers
    ]

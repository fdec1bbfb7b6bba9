"""Builds the static site from the tables in a store.

Loads no torch and requests nothing from the network. Templates escape every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt

from imharness.errors import DamagedError, StoreError, UsageError
from imharness.exports import marks
from imharness.exports.data import csv_bytes
from imharness.reading.credits import Credit, credits
from imharness.reading.text import reason
from imharness.results.boards import Board
from imharness.results.labels import id_of
from imharness.results.store import Store
from imharness.results.tables import Table
from imharness_leaderboard import addresses, commands, names, published, rankings, tables, texts, wording
from imharness_leaderboard.cards import data_line
from imharness_leaderboard.changes import FILE, Release, history, releases_json, summary
from imharness_leaderboard.chart_pictures import chart_pictures
from imharness_leaderboard.citations import bibtex, caveats, cff, entry_citation, last_day
from imharness_leaderboard.comparison_pictures import comparison_pictures
from imharness_leaderboard.compiled import COMPILED
from imharness_leaderboard.conditions import with_conditions
from imharness_leaderboard.current import current_boards
from imharness_leaderboard.entries import EntryView, entry_views, ranked_variants, standing_word
from imharness_leaderboard.feed import atom_feed
from imharness_leaderboard.folder import SiteFolder, json_text
from imharness_leaderboard.gallery import GalleryExample, write_gallery
from imharness_leaderboard.home import home_of, question_of, write_numbers
from imharness_leaderboard.knowing import COSTS
from imharness_leaderboard.methods import methods
from imharness_leaderboard.numbers import (
    comparison_index,
    forms_of,
    write_comparisons,
    write_results,
    write_tables,
)
from imharness_leaderboard.picture import THEMES, Picture, darkened
from imharness_leaderboard.ranking_pictures import ranking_pictures
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.scores import scores_of
from imharness_leaderboard.searching import Found, found_by_search, papers_of
from imharness_leaderboard.secret import against_secret

STATIC = Path(__file__).parent / "static"
LARGE = 120
"""A table with more rows than this is shown on its own page only."""
SAID = 100
"""The most findings of a tier on the page of a track; all of them are in the data."""
PICTURES = 5
"""The most pictures on the page of a track, with those of the worst case; the others stand with the study tables."""


@dataclass(frozen=True)
class Built:
    """The result of a build: the number of HTML pages, and one line for each thing that was left out."""

    pages: int
    problems: tuple[str, ...]


def build_site(
    address: str | Path,
    folder: Path,
    releases: Sequence[Release] = (),
    release: str = "",
    secret: str | Path | None = None,
) -> Built:
    """Write all pages; raises `StoreError` when the store has no tables that can be read.

    `releases` are the published ones, the oldest first. `release` is the name under which this state is published,
    empty when it is not. `secret` is the store of a secret split: entries that do worse on it are flagged.
    """
    store = Store(address)
    boards, problems = current_boards(address)
    if not boards:
        raise StoreError("; ".join(problems) or f"store {address} has no tables; run `harness run --all` first")
    with store.alone():  # so that tables and the scores behind them belong together
        boards = [board if board.stale else store.board(board.track) or board for board in boards]
        build = _Build(store, SiteFolder(folder), boards, problems, release, secret)
        build.write_all(releases)
    return Built(sum(name.endswith(".html") for name in build.site.files), tuple(build.problems))


class _Build:
    """One build of the site: what all its pages share, and how each is written."""

    def __init__(
        self,
        store: Store,
        site: SiteFolder,
        boards: list[Board],
        problems: list[str],
        release: str,
        secret: str | Path | None,
    ) -> None:
        self.site, self.problems, self.release = site, problems, release
        self.day = datetime.now(UTC).date().isoformat() if release else last_day(boards)
        self.scores = {board.track: scores_of(board, self._numbers(store, board)) for board in boards}
        boards = against_secret(boards, self.scores, secret) if secret is not None else boards
        self.boards = boards = [tables.with_order(with_conditions(board, self.scores[board.track])) for board in boards]
        self.gallery = {board.track: self._images(store, board) for board in boards}
        self.views = entry_views(boards, self.gallery)
        self.rankings = {
            board.track: rankings.ranking_views(board, self.scores[board.track], self.gallery[board.track], release)
            for board in boards
        }
        self.published: set[str] = set()
        self.papers: list[Found] = []
        self._by_label: dict[str, EntryView] = {}
        self._by_id: dict[tuple[str, str], EntryView] = {}
        for (kind, label), view in self.views.items():
            self._by_label.setdefault(label, view)
            self._by_id.setdefault((kind, id_of(label)), view)
        self.templates = self._environment()

    def _numbers(self, store: Store, board: Board) -> Mapping[str, npt.NDArray[np.floating]]:
        try:
            return store.numbers(board)
        except DamagedError as error:
            self.problems.append(f"{board.track}: readers cannot run the tests themselves: {error}")
            return {}

    def _images(self, store: Store, board: Board) -> list[GalleryExample]:
        if board.secret:  # whoever sees images of the split can tell how they were changed
            return []
        found, problems = write_gallery(self.site, store, board)
        self.problems += [f"{board.track}: {line}" for line in problems]
        return found

    def _environment(self) -> jinja2.Environment:
        found = jinja2.Environment(
            loader=jinja2.PackageLoader("imharness_leaderboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            bytecode_cache=COMPILED,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        found.filters["code"] = wording.with_code
        for module, offered in (
            (
                addresses,
                (
                    "track_page",
                    "table_page",
                    "studies_page",
                    "gallery_page",
                    "published_page",
                    "data_file",
                    "comparison_file",
                ),
            ),
            (tables, ("shown", "spread", "why", "shade", "marks_of", "facets_of", "breadth", "headline", "legend")),
            (rankings, ("row_text",)),
            (commands, ("compute_again",)),
            (
                names,
                ("head_of", "in_names", "plural", "short_titles", "spelled_measure", "table_title", "title_with_names"),
            ),
            (wording, ("brief", "breaking", "facet_text", "moment", "partial")),
            (marks, ("places_of", "proxies_of")),
        ):
            found.globals.update({name: getattr(module, name) for name in offered})
        found.globals.update(published.NAMES)
        found.globals.update(
            boards=self.boards,
            themes=list(THEMES),
            release=self.release,
            forms_of=forms_of,
            ranked_variants=ranked_variants,
            standing_word=standing_word,
            standing_in_words=marks.standing_of,
            standing_of=self._standing,
            link_of=self._link,
            shown_value=tables.shown,
            large=LARGE,
            said=SAID,
            costs_words=COSTS,
        )
        return found

    def write_all(self, releases: Sequence[Release]) -> None:
        """Write every file of the site, and remove those of earlier builds that are not part of it any more."""
        for path in sorted(STATIC.iterdir()):
            self.site.write(path.name, path.read_bytes())
        for board in self.boards:
            self._write_track(board)
        for view in self.views.values():
            self._write_entry(view)
        self._write_data()
        self._write_home()
        self._write_methods()
        self._page("compare.html", "compare.html", title="Compare entries", here="compare.html")
        self._page("credits.html", "credits.html", title="Credits", here="credits.html", credits=self._credits())
        self._write_changes(releases)
        self.site.finish()

    def _write_methods(self) -> None:
        rules, found = texts.sections("ranking.md"), methods(self.boards)
        self._page("methods.html", "methods.html", title="Methods", rules=rules, methods=found, here="methods.html")
        parts = [(name, list(terms)) for name, terms in groupby(texts.glossary(), lambda term: term.section)]
        self._page("glossary.html", "glossary.html", title="Glossary", parts=parts)

    def _credits(self) -> tuple[Credit, ...]:
        try:
            return credits()
        except UsageError as error:
            self.problems.append(f"a table of credits cannot be read: {error}")
            return ()

    def _write_home(self) -> None:
        demo, line = data_line(self.boards)
        home = home_of(self.boards, self.rankings)
        write_numbers(self.site, home)
        self._page(
            "index.html",
            "index.html",
            title="",
            here="index.html",
            demo=demo,
            data_line=line,
            home=home,
            published=self.published,
        )
        found = found_by_search(self.boards, list(self.views.values()), self.papers)
        self.site.write("data/search.json", json_text(found))
        self._page("submit.html", "submit.html", title="Submit")
        texts = [(board, bibtex(board, self.release)) for board in self.boards]
        file = cff(self.boards, self.release, self.day)
        self.site.write("cite/leaderboard.bib", "\n".join(text for _, text in texts))
        self.site.write("cite/CITATION.cff", file)
        self._page("cite.html", "cite.html", title="Cite", demo=demo, data_line=line, citations=texts, cff=file)

    def _write_track(self, board: Board) -> None:
        here = addresses.track_page(board)
        pictures, gallery = self._pictures(board), self.gallery[board.track]
        views = self.rankings[board.track]
        studies = [table for table in board.tables if table.id not in {view.table.id for view in views}]
        plain = studies.pop(0) if studies and not views else None
        worst = _first_images(views, gallery)
        room = PICTURES - (len(worst.files) if worst is not None else 0)
        first, more = _first_pictures(board, pictures, room)
        about: dict[str, Any] = {"here": here, "board": board, "rankings": views, "studies": studies}
        question = question_of(board, views[0].table.entry) if views else board.question or board.title
        if self._write_published(board):
            self.published.add(board.track)
        self._page(
            here,
            "track.html",
            title=question,
            pictures=first,
            plain=plain,
            gallery=worst,
            published=board.track in self.published,
            more=len(more),
            **about,
        )
        small = [table for table in studies if len(table.rows) <= LARGE]
        page, title = addresses.studies_page(board), f"Study tables, {board.title}"
        self._page(page, "studies.html", title=title, small=small, pictures=more, **about)
        for view in views:
            self._write_rows(view, here)
            for shown in view.rows:
                title = f"{shown.name}, {view.table.title}"
                self._page(shown.page, "details.html", title=title, here=here, board=board, view=view, shown=shown)
        for table in board.tables:
            page, title = addresses.table_page(board, table), f"{table.title}, {board.title}"
            self._page(
                page,
                "table.html",
                title=title,
                here=here,
                board=board,
                table=table,
                pictures=_pictures_of_table(pictures, board, table),
            )
        if gallery:
            page, title = addresses.gallery_page(board), f"Gallery, {board.title}"
            self._page(page, "gallery.html", title=title, here=here, board=board, gallery=gallery)

    def _write_rows(self, view: RankingView, here: str) -> None:
        """Write the pages with the rows of a long ranking, and the index by which the track's page finds them."""
        for part in view.parts[1:]:
            title = f"Rows {part.start} to {part.end}, {view.table.title}"
            self._page(part.page, "rows.html", title=title, here=here, board=view.board, view=view, part=part)
        if view.heat is not None:
            self.site.write(
                addresses.data_file(view.board, f"{view.table.id}-by-attack", "csv"), csv_bytes(view.heat.data)
            )
        if view.rows_file:
            self.site.write(view.rows_file, json_text(view.rows_index))

    def _write_published(self, board: Board) -> bool:
        """Write the page of published tables, and say whether there is one."""
        view, problem = published.published_view(board)
        self.problems += [problem] if problem else []
        if view is None:
            return False
        self.papers += papers_of(board, view.papers)
        self.site.write(addresses.data_file(board, "published", "json"), json_text(view.facts()))
        self._page(
            addresses.published_page(board),
            "published.html",
            title=f"Published and ours, {board.title}",
            here=addresses.track_page(board),
            board=board,
            view=view,
        )
        return True

    def _write_entry(self, view: EntryView) -> None:
        stands = [f"place {own.rank} in {own.board.title}" for own in view.results]
        stands += dict.fromkeys(text for own in view.results for text in caveats(own.board, view.label))
        citation = entry_citation(view.kind, view.label, view.facts, stands, self.release, self.day)
        self.site.write(f"{citation.file}.bib", citation.bibtex)
        self.site.write(f"{citation.file}.cff", citation.cff)
        try_out = commands.try_out(view.kind, view.label, view.facts)
        self._page(
            view.page,
            "entry.html",
            title=view.label,
            view=view,
            citation=citation,
            try_out=try_out,
            check=commands.check(view.facts),
        )

    def _pictures(self, board: Board) -> list[Picture]:
        """Draw the pictures of a board in every theme, and return those that could be drawn."""
        compared = self.scores[board.track]
        sources = [
            *(partial(chart_pictures, board, chart) for chart in board.charts),
            *(partial(ranking_pictures, board, own, compared) for own in board.rankings),
            *(partial(comparison_pictures, board, scores) for scores in compared),
        ]
        found: list[Picture] = []
        for source in sources:
            with self._apart(board):
                for picture in source():
                    with self._apart(board):
                        self._draw(picture)
                        found.append(picture)
        return found

    @contextmanager
    def _apart(self, board: Board) -> Iterator[None]:
        """Let a picture that cannot be drawn be a problem of its own: the site is built without it."""
        try:
            yield
        except StoreError:  # the site cannot be written
            raise
        except Exception as error:
            self.problems.append(f"{board.track}: a picture cannot be drawn: {reason(error)}")

    def _draw(self, picture: Picture) -> None:
        light = cache(partial(picture.svg, "light"))
        self.site.make(picture.file("light"), picture.source, light)
        self.site.make(picture.file("dark"), picture.source, lambda: darkened(light()))
        self.site.make(picture.numbers, picture.source, partial(csv_bytes, picture.data))

    def _write_data(self) -> None:
        for board in self.boards:
            write_tables(self.site, board)
            pool = f"{self.release or 'unreleased'} {board.sources[:12]}"
            write_comparisons(self.site, board, self.scores[board.track], pool)
        write_results(self.site, self.boards, self.release)
        self.site.write("data/comparisons.json", json_text(comparison_index(self.boards)))
        files = sorted(
            name for name in self.site.files if name.startswith("data/") and not name.endswith((".f32", ".f64"))
        )
        sizes = {name: wording.human_size(self.site.size(name)) for name in files}
        self._page("data.html", "data.html", title="Data", sizes=sizes, here="data.html")

    def _write_changes(self, releases: Sequence[Release]) -> None:
        state = {board.track: summary(board) for board in self.boards}
        if self.release:
            releases = [*releases, Release(name=self.release, date=date.fromisoformat(self.day), boards=state)]
            self.site.write(FILE, releases_json(releases))
        found = history(releases, None if self.release else state)
        self._page("changes.html", "changes.html", title="Changes", history=found, here="changes.html")
        self.site.write("feed.xml", atom_feed(found))

    def _page(self, name: str, template: str, *, title: str, here: str = "", **facts: Any) -> None:
        """Write a page. `here` is the address that the navigation marks as the current one."""
        root = "../" * name.count("/")
        text = self.templates.get_template(template).render(root=root, title=title, here=here, **facts)
        self.site.write(name, texts.finished(text, root))

    def _standing(self, label: str) -> str:
        """Return the status of the entry with a label; empty where it was not submitted."""
        view = self._by_label.get(label)
        return standing_word(view.facts) if view is not None else ""

    def _link(self, label: str, kind: str = "") -> str:
        """Return the address of an entry's page, or an empty string; without a kind the label decides.

        An attack that a table names without its strength has a page for each of them; the first one is meant.
        """
        known = self.views.get((kind, label)) or self._by_label.get(label)
        view = known or self._by_id.get((kind, id_of(label)))
        return view.page if view is not None else ""


def _first_images(views: Sequence[RankingView], gallery: Sequence[GalleryExample]) -> GalleryExample | None:
    """Return the images of the worst case that a track's page shows: those of its first entry that has any."""
    ranked = [shown.images[0] for view in views for shown in view.rows if shown.images]
    return next((own for own in (*ranked, *gallery) if len(own.files) < PICTURES), None)


def _first_pictures(board: Board, pictures: Sequence[Picture], room: int) -> tuple[list[Picture], list[Picture]]:
    """Return the pictures that a track's page shows, and the others.

    It shows what the track itself declares. What is drawn of rankings and comparisons repeats what the page has.
    """
    declared = {addresses.picture_base(board, chart.id) for chart in board.charts}
    first = [picture for picture in pictures if picture.name in declared][:room]
    return first, [picture for picture in pictures if picture not in first]


def _pictures_of_table(pictures: Sequence[Picture], board: Board, table: Table) -> list[Picture]:
    """Return the pictures that are drawn from a table, or from the scores behind it."""
    known = {addresses.slug(chart.id) for chart in board.charts if chart.table == table.id}
    own = f"{addresses.slug(table.id)}-"
    known |= {own + form for form in ("ranks", "spread", "worst", "trade")}
    return [
        picture
        for picture in pictures
        if (name := picture.name.rpartition("/")[2]) in known or name.startswith(f"{own}attacks")
    ]

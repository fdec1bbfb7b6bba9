"""Builds the static site from the tables in a store.

Loads no torch and requests nothing from the network. Templates escape every value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.seasons import is_hidden, without_single_numbers
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.documents.tables import Table
from imharness.errors import DamagedError, StoreError, UsageError
from imharness.exports.data import csv_bytes
from imharness.reading.credits import Credit, credits
from imharness.reading.text import reason
from imharness.results.labels import id_of
from imharness.results.store import Store
from imharness_leaderboard import (
    addresses,
    citations,
    drawing_files,
    published,
    rankings,
    tables,
    texts,
    wording,
)
from imharness_leaderboard.changes import FILE, Release, atom_feed, history, releases_json, summary
from imharness_leaderboard.citations import bibtex, caveats, cff, data_line, entry_citation, last_day
from imharness_leaderboard.entries import EntryView, entry_views, standing_word
from imharness_leaderboard.environment import environment
from imharness_leaderboard.folder import SiteFolder, json_text
from imharness_leaderboard.gallery import GalleryExample, write_gallery
from imharness_leaderboard.guide_pages import FOLDER, GUIDES, project_addresses
from imharness_leaderboard.home import home_of, question_of, write_numbers
from imharness_leaderboard.leaderboards import against_secret, current_leaderboards, origin_of_site
from imharness_leaderboard.methods import methods
from imharness_leaderboard.numbers import (
    comparison_index,
    write_comparisons,
    write_results,
    write_tables,
)
from imharness_leaderboard.picture import Picture, darkened
from imharness_leaderboard.ranking_script import rows_index
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.scores import scores_of, with_conditions
from imharness_leaderboard.searching import Found, found_by_search, papers_of

STATIC = Path(__file__).parent / "static"
LARGE = 120
"""A table with more rows than this is shown on its own page only."""
PICTURES = 5
"""The most pictures on the page of a track, with images of the worst attack; others are with the study tables."""


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

    If the folder has a site that was built from the same results and code, nothing is written. `releases`: those that
    are published, the oldest first. `release`: the name under which this state is published, "" if it is not. `secret`:
    the store of a secret split; entries that do worse on it are flagged.
    """
    store = Store(address)
    leaderboards, problems = current_leaderboards(address)
    if not leaderboards:
        raise StoreError("; ".join(problems) or f"store {address} has no tables; run `harness run --all` first")
    with store.alone():  # so that tables and the scores behind them belong together
        leaderboards = [
            leaderboard if leaderboard.stale else read_leaderboard(store, leaderboard.track) or leaderboard
            for leaderboard in leaderboards
        ]
        site, plain = SiteFolder(folder), not (problems or releases or release or secret)
        hidden = [leaderboard.track for leaderboard in leaderboards if is_hidden(store, leaderboard)]
        origin = origin_of_site(leaderboards, hidden) if plain else ""
        if files := site.built_from(origin):
            return Built(sum(name.endswith(".html") for name in files), ())
        build = _Build(store, site, leaderboards, problems, release, secret, hidden)
        build.write_all(releases, origin)
    return Built(sum(name.endswith(".html") for name in build.site.files), tuple(build.problems))


class _Build:
    """One build of the site: what all its pages share, and how each is written."""

    def __init__(
        self,
        store: Store,
        site: SiteFolder,
        leaderboards: list[Leaderboard],
        problems: list[str],
        release: str,
        secret: str | Path | None,
        hidden: Collection[str] = (),
    ) -> None:
        self.site, self.problems, self.release = site, problems, release
        self.day = datetime.now(UTC).date().isoformat() if release else last_day(leaderboards)
        self.scores = {
            leaderboard.track: scores_of(leaderboard, self._numbers(store, leaderboard)) for leaderboard in leaderboards
        }
        leaderboards = against_secret(leaderboards, self.scores, secret) if secret is not None else leaderboards
        leaderboards = [
            without_single_numbers(leaderboard) if leaderboard.track in hidden else leaderboard
            for leaderboard in leaderboards
        ]
        self.leaderboards = leaderboards = [
            tables.with_order(with_conditions(leaderboard, self.scores[leaderboard.track]))
            for leaderboard in leaderboards
        ]
        self.gallery = {leaderboard.track: self._images(store, leaderboard) for leaderboard in leaderboards}
        self.views = entry_views(leaderboards, self.gallery)
        self.rankings = {
            leaderboard.track: rankings.ranking_views(
                leaderboard, self.scores[leaderboard.track], self.gallery[leaderboard.track], release
            )
            for leaderboard in leaderboards
        }
        self.published: set[str] = set()
        self.papers: list[Found] = []
        self._by_label: dict[str, EntryView] = {}
        self._by_id: dict[tuple[str, str], EntryView] = {}
        for (kind, label), view in self.views.items():
            self._by_label.setdefault(label, view)
            self._by_id.setdefault((kind, id_of(label)), view)
        self.templates = environment(
            leaderboards=self.leaderboards,
            release=self.release,
            standing_of=self._standing,
            link_of=self._link,
            large=LARGE,
            guides=GUIDES,
            addresses=project_addresses(),
        )

    def _numbers(self, store: Store, leaderboard: Leaderboard) -> Mapping[str, npt.NDArray[np.floating]]:
        try:
            return read_numbers(store, leaderboard)
        except DamagedError as error:
            self.problems.append(f"{leaderboard.track}: readers cannot run the tests themselves: {error}")
            return {}

    def _images(self, store: Store, leaderboard: Leaderboard) -> list[GalleryExample]:
        if leaderboard.secret:  # whoever sees images of the split can tell how they were changed
            return []
        images, problems = write_gallery(self.site, store, leaderboard)
        self.problems += [f"{leaderboard.track}: {line}" for line in problems]
        return images

    def write_all(self, releases: Sequence[Release], origin: str) -> None:
        """Write every file of the site, and remove those of earlier builds that are not part of it any more.

        `origin`: the digest of everything that the site is made from, or "" where that is not known.
        """
        for path in sorted(STATIC.iterdir()):
            self.site.write(path.name, path.read_bytes())
        for leaderboard in self.leaderboards:
            self._write_track(leaderboard)
        for view in self.views.values():
            self._write_entry(view)
        self._write_data()
        self._write_home()
        self._write_methods()
        self._write_documents()
        self._page("compare.html", "compare.html", title="Compare entries", here="compare.html")
        self._page("credits.html", "credits.html", title="Credits", here="credits.html", credits=self._credits())
        self._write_changes(releases)
        self.site.finish("" if self.problems else origin)

    def _write_methods(self) -> None:
        rules, all_methods = texts.sections("ranking.md"), methods(self.leaderboards)
        self._page(
            "methods.html", "methods.html", title="Methods", rules=rules, methods=all_methods, here="methods.html"
        )
        glossary_sections = [
            (name, list(terms)) for name, terms in groupby(texts.glossary(), lambda term: term.section)
        ]
        self._page("glossary.html", "glossary.html", title="Glossary", parts=glossary_sections)

    def _write_documents(self) -> None:
        """Write the guides, what the papers claim, and the studies on real data."""
        for guide in GUIDES:
            facts = {"guide": guide, "rankings": guide.rankings(self.leaderboards)}
            self._page(guide.page, "guide.html", title=guide.question, here=guide.page, **facts)
            self.site.write(guide.picture, (FOLDER / f"{guide.name}.png").read_bytes())
        index = texts.ON_SITE[texts.STUDIES]
        for source in (texts.CLAIMS, texts.STUDIES):
            self._write_document(texts.ON_SITE[source], source)
        for source, page in texts.studies().items():
            self._write_document(page, source, (index, texts.sections(texts.STUDIES)[0].title))

    def _write_document(self, page: str, source: str, above: tuple[str, str] | None = None) -> None:
        """Write a page of the documentation; `above`: address and title of the page that leads to it."""
        sections = texts.sections(source)
        here = above[0] if above else page
        self._page(page, "document.html", title=sections[0].title, here=here, sections=sections, above=above)

    def _credits(self) -> tuple[Credit, ...]:
        try:
            return credits()
        except UsageError as error:
            self.problems.append(f"a table of credits cannot be read: {error}")
            return ()

    def _write_home(self) -> None:
        demo, line = data_line(self.leaderboards)
        home = home_of(self.leaderboards, self.rankings)
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
        search_entries = found_by_search(self.leaderboards, list(self.views.values()), self.papers)
        self.site.write("data/search.json", json_text(search_entries))
        self._page("submit.html", "submit.html", title="Submit")
        texts = [(leaderboard, bibtex(leaderboard, self.release)) for leaderboard in self.leaderboards]
        file = cff(self.leaderboards, self.release, self.day)
        self.site.write("cite/leaderboard.bib", "\n".join(text for _, text in texts))
        self.site.write("cite/CITATION.cff", file)
        self._page("cite.html", "cite.html", title="Cite", demo=demo, data_line=line, citations=texts, cff=file)

    def _write_track(self, leaderboard: Leaderboard) -> None:
        here = addresses.track_page(leaderboard)
        pictures, gallery = self._pictures(leaderboard), self.gallery[leaderboard.track]
        views = self.rankings[leaderboard.track]
        studies = [table for table in leaderboard.tables if table.id not in {view.table.id for view in views}]
        plain = studies.pop(0) if studies and not views else None
        worst = _first_images(views, gallery)
        room = PICTURES - (len(worst.files) if worst is not None else 0)
        first, more = pictures[:room], pictures[room:]
        about: dict[str, Any] = {"here": here, "leaderboard": leaderboard, "rankings": views, "studies": studies}
        question = (
            question_of(leaderboard, views[0].table.entry) if views else leaderboard.question or leaderboard.title
        )
        if self._write_published(leaderboard):
            self.published.add(leaderboard.track)
        self._page(
            here,
            "track.html",
            title=question,
            pictures=first,
            plain=plain,
            gallery=worst,
            published=leaderboard.track in self.published,
            more=len(more),
            **about,
        )
        small = [table for table in studies if len(table.rows) <= LARGE]
        page, title = addresses.studies_page(leaderboard), f"Study tables, {leaderboard.title}"
        self._page(page, "studies.html", title=title, small=small, pictures=more, **about)
        if views:
            page, title = addresses.findings_page(leaderboard), f"Findings, {leaderboard.title}"
            self._page(page, "findings.html", title=title, **about)
        for view in views:
            self._write_rows(view, here)
            self._write_drawings(leaderboard, drawing_files.ranking_drawings(view))
            if view.heat is not None:
                self.site.write(drawing_files.drawings_of(view)["heat"][1], csv_bytes(view.heat.data))
            for ranked_row in view.rows:
                title = f"{ranked_row.name}, {view.table.title}"
                self._page(
                    ranked_row.page,
                    "details.html",
                    title=title,
                    here=here,
                    leaderboard=leaderboard,
                    view=view,
                    shown=ranked_row,
                )
        for table in leaderboard.tables:
            page, title = addresses.table_page(leaderboard, table), f"{table.title}, {leaderboard.title}"
            self._page(
                page,
                "table.html",
                title=title,
                here=here,
                leaderboard=leaderboard,
                table=table,
                pictures=_pictures_of_table(pictures, leaderboard, table),
            )
        if gallery:
            page, title = addresses.gallery_page(leaderboard), f"Gallery, {leaderboard.title}"
            self._page(page, "gallery.html", title=title, here=here, leaderboard=leaderboard, gallery=gallery)

    def _write_rows(self, view: RankingView, here: str) -> None:
        """Write the pages with the rows of a long ranking, and the index by which the track's page finds them."""
        for chunk in view.parts[1:]:
            title = f"Rows {chunk.start} to {chunk.end}, {view.table.title}"
            self._page(
                chunk.page, "rows.html", title=title, here=here, leaderboard=view.leaderboard, view=view, part=chunk
            )
        if view.rows_file:
            self.site.write(view.rows_file, json_text(rows_index(view)))

    def _write_drawings(self, leaderboard: Leaderboard, drawings: Iterable[drawing_files.Drawing]) -> None:
        for drawing in drawings:
            self.site.write(drawing.files[0], drawing_files.as_svg(drawing, self.templates, leaderboard, self.release))

    def _write_published(self, leaderboard: Leaderboard) -> bool:
        """Write the page of published tables, and say whether there is one."""
        view, problem = published.published_view(leaderboard)
        self.problems += [problem] if problem else []
        if view is None:
            return False
        self.papers += papers_of(leaderboard, view.papers)
        self.site.write(addresses.data_file(leaderboard, "published", "json"), json_text(view.facts()))
        drawings = list(drawing_files.slope_drawings(leaderboard, view.drawn))
        self._write_drawings(leaderboard, drawings)
        for drawing, drawn in zip(drawings, view.drawn, strict=True):
            self.site.write(drawing.files[1], csv_bytes(drawn.data))
        self._page(
            addresses.published_page(leaderboard),
            "published.html",
            title=f"Published and ours, {leaderboard.title}",
            here=addresses.track_page(leaderboard),
            leaderboard=leaderboard,
            view=view,
            drawings=[drawing.files for drawing in drawings],
        )
        return True

    def _write_entry(self, view: EntryView) -> None:
        stands = [f"rank {result.rank} in {result.leaderboard.title}" for result in view.results]
        stands += dict.fromkeys(text for result in view.results for text in caveats(result.leaderboard, view.label))
        citation = entry_citation(view.kind, view.label, view.facts, stands, self.release, self.day)
        self.site.write(f"{citation.file}.bib", citation.bibtex)
        self.site.write(f"{citation.file}.cff", citation.cff)
        try_out = citations.try_out(view.kind, view.label, view.facts)
        self._page(
            view.page,
            "entry.html",
            title=view.label,
            view=view,
            citation=citation,
            try_out=try_out,
            check=citations.check(view.facts),
        )

    def _pictures(self, leaderboard: Leaderboard) -> list[Picture]:
        """Draw the charts of a leaderboard in every theme, and return those that could be drawn."""
        drawn: list[Picture] = []
        from imharness_leaderboard.chart_pictures import chart_pictures  # with matplotlib, where there are charts

        for chart in leaderboard.charts:
            with self._apart(leaderboard):
                for picture in chart_pictures(leaderboard, chart):
                    self._draw(picture)
                    drawn.append(picture)
        return drawn

    @contextmanager
    def _apart(self, leaderboard: Leaderboard) -> Iterator[None]:
        """Turn the error of a picture that cannot be drawn into a problem: the site is built without the picture."""
        try:
            yield
        except StoreError:  # the site cannot be written
            raise
        except Exception as error:
            self.problems.append(f"{leaderboard.track}: a picture cannot be drawn: {reason(error)}")

    def _draw(self, picture: Picture) -> None:
        light = cache(partial(picture.svg, "light"))
        self.site.make(picture.file("light"), picture.source, light)
        self.site.make(picture.file("dark"), picture.source, lambda: darkened(light()))
        self.site.make(picture.numbers, picture.source, partial(csv_bytes, picture.data))

    def _write_data(self) -> None:
        for leaderboard in self.leaderboards:
            write_tables(self.site, leaderboard)
            pool = f"{self.release or 'unreleased'} {leaderboard.sources[:12]}"
            if leaderboard.numbers is not None:
                write_comparisons(self.site, leaderboard, self.scores[leaderboard.track], pool)
        write_results(self.site, self.leaderboards, self.release)
        self.site.write("data/comparisons.json", json_text(comparison_index(self.leaderboards)))
        files = sorted(
            name for name in self.site.files if name.startswith("data/") and not name.endswith((".f32", ".f64"))
        )
        sizes = {name: wording.human_size(self.site.size(name)) for name in files}
        self._page("data.html", "data.html", title="Data", sizes=sizes, here="data.html")

    def _write_changes(self, releases: Sequence[Release]) -> None:
        state = {leaderboard.track: summary(leaderboard) for leaderboard in self.leaderboards}
        if self.release:
            releases = [*releases, Release(name=self.release, date=date.fromisoformat(self.day), leaderboards=state)]
            self.site.write(FILE, releases_json(releases))
        changes = history(releases, None if self.release else state)
        self._page("changes.html", "changes.html", title="Changes", history=changes, here="changes.html")
        self.site.write("feed.xml", atom_feed(changes))

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

        A table may name an attack without its strength; then this is the page of its first strength.
        """
        exact_view = self.views.get((kind, label)) or self._by_label.get(label)
        view = exact_view or self._by_id.get((kind, id_of(label)))
        return view.page if view is not None else ""


def _first_images(views: Sequence[RankingView], gallery: Sequence[GalleryExample]) -> GalleryExample | None:
    """Return the images of the worst case that a track's page shows: those of its first entry that has any."""
    ranked = [row.images[0] for view in views for row in view.rows if row.images]
    return next((image for image in (*ranked, *gallery) if len(image.files) < PICTURES), None)


def _pictures_of_table(pictures: Sequence[Picture], leaderboard: Leaderboard, table: Table) -> list[Picture]:
    """Return the pictures that are drawn from a table."""
    names = {addresses.picture_base(leaderboard, chart.id) for chart in leaderboard.charts if chart.table == table.id}
    return [picture for picture in pictures if picture.name in names]

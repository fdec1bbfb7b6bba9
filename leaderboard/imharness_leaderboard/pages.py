"""Boards -> a static site. Every value is escaped by the template engine; no torch, no request to anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from imharness.errors import StoreError
from imharness.results.records import Board, Table, Value
from imharness.results.store import Store
from imharness_leaderboard import naming
from imharness_leaderboard.changes import FILE, Change, Release, changes, releases_json, summary
from imharness_leaderboard.charts import THEMES, Picture, pictures_of
from imharness_leaderboard.current import current_boards
from imharness_leaderboard.entries import EntryView, entry_views, standing_word
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.gallery import Shown, write_gallery
from imharness_leaderboard.methods import methods
from imharness_leaderboard.numbers import comparison_index, write_comparisons, write_results, write_tables
from imharness_leaderboard.scores import scores_of

STATIC = Path(__file__).parent / "static"
LARGE = 120
"""Rows beyond which a table has a page of its own only."""


@dataclass(frozen=True)
class Built:
    """What a build did: HTML pages written, and a line for everything that was left out."""

    pages: int
    problems: tuple[str, ...]


def build_site(store_dir: Path, folder: Path, releases: Sequence[Release] = (), release: str = "") -> Built:
    """Write all pages. Raises `StoreError` when the store has no tables that can be read.

    `releases`: what was published before, the oldest first. `release`: the name under which this state is published.
    """
    store = Store(store_dir)
    boards, problems = current_boards(store_dir)
    if not boards:
        raise StoreError("; ".join(problems) or f"store {store_dir} has no tables; run `harness run --all` first")
    build = _Build(store, SiteFolder(folder), boards, problems, list(releases), release)
    build.everything()
    return Built(sum(name.endswith(".html") for name in build.site.files), tuple(build.problems))


class _Build:
    """One build: the boards, what was made of them so far, and the templates."""

    def __init__(
        self, store: Store, site: SiteFolder, boards: list[Board], problems: list[str], releases: list[Release],
        release: str,
    ) -> None:  # fmt: skip
        self.store, self.site, self.boards, self.problems = store, site, boards, problems
        self.releases, self.release = releases, release
        self.scores = {board.track: scores_of(board, self._numbers(board)) for board in boards}
        self.pictures = {board.track: pictures_of(board, self.scores[board.track]) for board in boards}
        self.gallery: dict[str, list[Shown]] = {}
        self.views: dict[tuple[str, str], EntryView] = {}
        self.templates = jinja2.Environment(
            loader=jinja2.PackageLoader("imharness_leaderboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters["code"] = with_code
        self.templates.globals.update(
            {name: getattr(naming, name) for name in ("track_page", "table_page", "data_file", "entry_page", "brief",
             "shown", "spread", "why", "shade", "best", "facets_of", "column_named", "joined")},
            boards=boards, themes=list(THEMES), link_of=self._link, headline=headline, cell=cell, release=release,
            comparison_of=comparison_of, standing_of=self._standing, standing_word=standing_word,
        )  # fmt: skip

    def everything(self) -> None:
        """Write every file of the site."""
        for path in sorted(STATIC.iterdir()):
            self.site.write(path.name, path.read_bytes())
        for board in self.boards:
            self.gallery[board.track], lines = write_gallery(self.site, self.store, board)
            self.problems += [f"{board.track}: {line}" for line in lines]
        self.views = entry_views(self.boards, self.gallery)
        for board in self.boards:
            self._track(board)
        for view in self.views.values():
            self._page(view.page, "entry.html", title=view.label, view=view)
        self._data()
        self._page("index.html", "index.html", title="", here="index.html")
        self._page("methods.html", "methods.html", title="Methods", methods=methods(self.boards), here="methods.html")
        self._page("compare.html", "compare.html", title="Compare entries", here="compare.html")
        self._changes()
        self.site.finish()

    def _numbers(self, board: Board) -> Mapping[str, npt.NDArray[np.float32]]:
        try:
            return self.store.numbers(board)
        except StoreError as error:
            self.problems.append(f"{board.track}: readers cannot test for themselves: {error}")
            return {}

    def _track(self, board: Board) -> None:
        pictures, shown = self.pictures[board.track], self.gallery[board.track]
        for picture in pictures:
            for theme in THEMES:
                self.site.make(picture.file(theme), picture.source, lambda p=picture, t=theme: p.svg(t))  # type: ignore[misc]
        small = [table for table in board.tables[1:] if len(table.rows) <= LARGE]
        facts: dict[str, Any] = {"board": board, "pictures": pictures, "gallery": bool(shown), "small": small}
        self._page(naming.track_page(board), "track.html", title=board.title, here=naming.track_page(board), **facts)
        for table in board.tables:
            page = naming.table_page(board, table)
            self._page(page, "table.html", title=f"{table.title}, {board.title}", board=board, table=table,
                       here=naming.track_page(board), pictures=_about(pictures, board, table))  # fmt: skip
        if shown:
            page = f"{naming.track_slug(board.track)}/gallery.html"
            self._page(page, "gallery.html", title=f"Gallery, {board.title}", board=board, gallery=shown,
                       here=naming.track_page(board))  # fmt: skip

    def _data(self) -> None:
        for board in self.boards:
            write_tables(self.site, board)
            pool = f"{self.release or 'unreleased'} {board.sources[:12]}"
            write_comparisons(self.site, board, self.scores[board.track], pool)
        write_results(self.site, self.boards, self.release)
        self.site.write("data/comparisons.json", naming.json_text(comparison_index(self.boards)))
        files = sorted(name for name in self.site.files if name.startswith("data/") and not name.endswith(".f32"))
        sizes = {name: naming.human_size(self.site.size(name)) for name in files}
        self._page("data.html", "data.html", title="Data", sizes=sizes, here="data.html")

    def _changes(self) -> None:
        state = {board.track: summary(board, naming.track_page(board)) for board in self.boards}
        steps = list(self.releases)
        if self.release:
            now = Release(name=self.release, date=datetime.now(UTC).date(), boards=state)
            steps.append(now)
            self.site.write(FILE, releases_json(steps))
        found: list[tuple[str, str, list[Change]]] = []
        for before, after in zip([None, *steps], steps, strict=False):
            old = before.boards if before else {}
            found.append((after.name, after.date.isoformat(), changes(old, after.boards)))
        if not self.release and steps:
            found.append(("not published yet", "", changes(steps[-1].boards, state)))
        found.reverse()
        self._page("changes.html", "changes.html", title="Changes", found=found, here="changes.html")
        self.site.write("feed.xml", _feed(found))

    def _page(self, name: str, template: str, *, title: str, here: str = "", **facts: Any) -> None:
        root = "../" * name.count("/")
        text = self.templates.get_template(template).render(root=root, title=title, here=here, page=name, **facts)
        self.site.write(name, text)

    def _standing(self, label: str) -> str:
        """Return how the entry of a row stands, or an empty string."""
        found = (view.facts for (_, known), view in self.views.items() if known == label)
        return standing_word(next(found, None))

    def _link(self, label: str, kind: str = "") -> str:
        """Return the address of the page of a label, or an empty string."""
        if (kind, label) in self.views:
            return self.views[kind, label].page
        return next((view.page for (_, known), view in self.views.items() if known == label), "")


def _about(pictures: Sequence[Picture], board: Board, table: Table) -> list[Picture]:
    """Return the pictures that are drawn from a table, or from the scores behind it."""
    names = {naming.slug(chart.id) for chart in board.charts if chart.table == table.id}
    names |= {f"{naming.slug(table.id)}-{form}" for form in ("ranks", "spread")}
    return [picture for picture in pictures if picture.name.rpartition("/")[2] in names]


def comparison_of(board: Board, table: Table) -> str:
    """Return the address of the scores that a table's ranking is tested by, or an empty string."""
    found = [c for c in board.comparisons if c.id == table.id or (c.table == table.id and c.column == table.ranked_by)]
    found += [c for c in board.comparisons if c.entry == table.entry]
    return naming.data_file(board, found[0].id, "vectors.json") if found else ""


def headline(board: Board) -> dict[str, str] | None:
    """Return the winner of a track with a sentence on what it means, or None."""
    main = board.tables[0] if board.tables else None
    if main is None or not main.rows:
        return None
    column, row = naming.column_named(main, main.ranked_by), main.rows[0]
    value = row.values.get(main.ranked_by)
    if column is None or value is None or value.value is None:
        return None
    text = f"{column.label} {naming.shown(value, column)}"
    if value.low is not None and value.high is not None:
        text += f", 95% interval {value.low:.{column.decimals}f} to {value.high:.{column.decimals}f}"
    rivals = [label for label in main.not_worse.get(column.key, ()) if label != row.label]
    if column.key in main.not_worse:
        if not rivals:
            text += f"; significantly better than every other {main.entry}"
        else:
            named = naming.joined(naming.brief(label) for label in rivals[:3])
            text += f"; {named}{f' and {len(rivals) - 3} more' if len(rivals) > 3 else ''} not significantly worse"
    return {"label": row.label, "entry": main.entry, "text": text + "."}


def cell(table: Table, key: str, label: str, value: Value | None, top: float | None) -> str:
    """Return what a cell is marked as: best, tied (not significantly worse than the best), or nothing."""
    if value is None or value.value is None:
        return ""
    if top is not None and value.value == top:
        return "best"
    return "tied" if label in table.not_worse.get(key, ()) else ""


def with_code(text: str) -> Markup:
    """Return escaped text in which what stands between backquotes is code."""
    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", str(escape(text)), flags=re.DOTALL))


def _feed(found: Sequence[tuple[str, str, list[Change]]]) -> str:
    """Return an Atom feed of new entries and moves."""
    lines = []
    for name, day, moved in found:
        for change in moved if day else ():
            text = f"{change.what}: {change.text}"
            id = uuid5(NAMESPACE_URL, f"{name} {change.track} {text}")
            lines.append(
                f"<entry><id>urn:uuid:{id}</id><title>{html.escape(text)}</title><updated>{day}T00:00:00Z</updated>"
                f"<link href='changes.html'/><summary>{html.escape(f'{change.track}. {change.why}')}</summary></entry>"
            )
    updated = next((day for _, day, _ in found if day), "1970-01-01")
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n<feed xmlns='http://www.w3.org/2005/Atom'>"
        f"<id>urn:uuid:{uuid5(NAMESPACE_URL, 'image privacy leaderboard')}</id><title>Image privacy leaderboard</title>"
        f"<updated>{updated}T00:00:00Z</updated><author><name>Image privacy leaderboard</name></author>"
        + "\n".join(lines)
        + "</feed>\n"
    )

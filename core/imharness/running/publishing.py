"""Makes tables and pages during a run, in a thread of its own and in a small share of the run's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

from imharness.documents.leaderboards import Leaderboard
from imharness.errors import HarnessError
from imharness.planning.plan import Graph
from imharness.results.store import Store
from imharness.running.sweep import RunResult
from imharness.running.views import pause_after, short

STEP = 0.1
"""Tables are made again when this further share of a track is done, or after `EVERY_S` seconds."""
EVERY_S = 60.0
LOOK_S = 1.0
AFTER_S = 10.0
"""Nothing is published before: a run that is over by then makes all its tables at its end, and makes them once."""
THREAD = "tables meanwhile"
SHARE = 0.05
"""The share of a run's time that making tables and pages may take."""


class TablesMeanwhile:
    """Publishes each track when its first tables are possible, `AFTER_S` after the start, and again while they fill up.

    Args:
        first: track -> keys of the tasks of its first table.
        leaderboard_of: makes the tables of a graph from the tasks that are done or have failed so far.
        build: writes the site.
        note: gets a line when a track has its first tables.
        warn: gets a line if pages cannot be written.

    `page` is the page that shows the tables, or "" before it is written; `final` has the tables of finished tracks.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        store: Store,
        site: Path,
        *,
        first: Mapping[str, Set[str]],
        leaderboard_of: Callable[[Graph, RunResult], Leaderboard],
        build: Callable[[str, Path], None],
        note: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.page, self._note, self._warn = "", note, warn
        self.spent_s = 0.0
        self.final = dict[str, Leaderboard]()
        self._store, self._site, self._leaderboard_of, self._build = store, site, leaderboard_of, build
        self._tracks = [_Track(graph, first.get(graph.track.info.id, frozenset())) for graph in graphs]
        self._begun, self._last_s = time.monotonic(), 0.0
        self._next_look: float | None = None
        self._thread: threading.Thread | None = None

    def offer(self, outcome: RunResult, left_s: float | None) -> None:
        """Make tables of what is done, if it is time for that and no others are being made.

        When a track has ended, its last tables are made in any case, and its pages if time allows. `left_s` is how many
        seconds the run is expected to go on, or None while that is not known.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        now = time.monotonic()
        if self._next_look is None:
            self._next_look = self._begun + AFTER_S
            if (self._site / "index.html").is_file():
                for track in self._tracks:
                    track.note_earlier_tables(outcome, self._store.ranked())
        if now < self._next_look:
            return
        run_s = now - self._begun + (left_s or 0.0)
        affordable = self.spent_s + self._last_s <= SHARE * run_s
        due = [track for track in self._tracks if track.is_due(outcome, now, affordable=affordable)]
        ended = [track for track in self._tracks if track not in due and track.has_ended(outcome)]
        after = time.monotonic()
        self._next_look = after + max(LOOK_S, pause_after(after - now))
        if due or ended:
            so_far = RunResult(set(outcome.done), outcome.reused, dict(outcome.failed))
            arguments = ([*due, *ended], so_far, bool(due))
            self._thread = threading.Thread(target=self._publish, args=arguments, name=THREAD, daemon=True)
            self._thread.start()

    def finish(self) -> Mapping[str, Leaderboard]:
        """Wait until no tables are being made, and return those of finished tracks."""
        if self._thread is not None:
            self._thread.join()
        return self.final

    def write_pages(self) -> None:
        """Write the pages of what the store holds now; raises `HarnessError` if that is not possible."""
        self._build(self._store.address, self._site)
        self.page = str(self._site / "index.html")

    def _publish(self, tracks: Sequence[_Track], outcome: RunResult, pages: bool) -> None:
        start, new = time.monotonic(), []
        for track in tracks:
            try:
                leaderboard = self._leaderboard_of(track.graph, outcome)
            except HarnessError:  # there is too little yet; a real error is reported at the end
                leaderboard = None
            if leaderboard is not None and not leaderboard.waiting:
                self.final[leaderboard.track] = leaderboard
            if track.note_tables(outcome, leaderboard):
                new.append(short(track.graph.track.info.id))
        if pages and any(track.published for track in tracks):
            try:
                self.write_pages()
            except HarnessError as error:
                self._warn(f"the pages could not be renewed: {error}")
            if new and self.page:
                self._note(f"first tables of {', '.join(new)}: {self.page}")
        self._last_s = time.monotonic() - start
        self.spent_s += self._last_s


class _Track:
    """When the tables of a track were made, and from how many tasks."""

    def __init__(self, graph: Graph, first: Set[str]) -> None:
        self.graph, self._first = graph, first
        self.published = False
        self._made_at, self._shown = float("-inf"), 0
        """When tables were made last, or could not be, and how many tasks had ended then."""

    def note_earlier_tables(self, outcome: RunResult, ranked: Sequence[str]) -> None:
        """Note that an earlier run has published the earlier results."""
        if self.graph.track.info.id in ranked:
            self.published, self._made_at, self._shown = True, time.monotonic(), self._count_ended(outcome)

    def is_due(self, outcome: RunResult, now: float, *, affordable: bool) -> bool:
        """Return whether enough is new to make tables, and there is time to make them.

        The first try needs no time to be left: it comes when the tasks of the first table have ended.
        """
        new = self._count_ended(outcome) - self._shown
        if not new:
            return False
        many = new >= STEP * len(self.graph.tasks)
        if self.published:
            return affordable and (many or now - self._made_at >= EVERY_S)
        if self._shown or not self._first:
            return affordable and many
        return self._first <= outcome.done | outcome.failed.keys()

    def has_ended(self, outcome: RunResult) -> bool:
        """Return whether all tasks of the track have ended and its tables do not show all of them yet."""
        return self._shown < self._count_ended(outcome) == len(self.graph.tasks)

    def note_tables(self, outcome: RunResult, leaderboard: Leaderboard | None) -> bool:
        """Note that tables were made, or could not be made; return whether they are the track's first."""
        self._made_at, self._shown = time.monotonic(), self._count_ended(outcome)
        filled = leaderboard is not None and any(table.rows for table in leaderboard.tables)
        first = filled and not self.published
        self.published |= filled
        return first

    def _count_ended(self, outcome: RunResult) -> int:
        return sum(key in outcome.done or key in outcome.failed for key in self.graph.tasks)

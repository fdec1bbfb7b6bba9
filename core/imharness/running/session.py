"""A session does all work on a store: it plans, computes, merges, ranks and publishes, and informs a watcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from imharness.components.entries import KnownEntries
from imharness.components.registry import Registry, installed
from imharness.contracts.image_dataset import ImageDataset
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import StoreError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile
from imharness.planning.season import check_alone, in_season
from imharness.planning.selection import chosen_tracks, refuse_contradictions
from imharness.ranking.entries import known_entries
from imharness.ranking.listeners import announce
from imharness.ranking.unchanged import current_leaderboard, unchanged_leaderboard
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.budget import keep_to_budget
from imharness.running.device import recorded_name, resolve_devices
from imharness.running.executor import ON_THIS_MACHINE, Executor, open_executor
from imharness.running.merging import merged_sweep, without_old_budget
from imharness.running.pages import build_site
from imharness.running.placement import on_cpu, placed
from imharness.running.publishing import TablesMeanwhile
from imharness.running.schedule.estimates import Times, learnt_times
from imharness.running.schedule.sharding import Sharded
from imharness.running.sweep import RunResult, execute
from imharness.running.views import View, Watcher
from imharness.running.watching import RunWatch, first_sets


class Ranked(NamedTuple):
    """The tables of a track, the scores behind them by comparison, and the tasks that they are made from."""

    leaderboard: Leaderboard
    numbers: Mapping[str, npt.NDArray[np.float32]]
    sweep: Sweep


class Ran(NamedTuple):
    """What a run returns: what happened to its tasks, and the tables of each track."""

    result: RunResult
    leaderboards: Sequence[Leaderboard]


@dataclass
class Session:
    """Work on one store with one profile.

    Args:
        store: where the results are kept.
        profile: what is computed, and the seed of the secret split, if it uses one.
        registry: the components that names refer to.
        seed, limit: as for `harness run`.
        command: the command that the tables state as their origin.
        executor, devices, workers, settings, prepare: where tasks are computed; see `open_executor`.
    """

    store: Store
    profile: Profile
    registry: Registry = field(default_factory=installed)
    seed: int = 0
    limit: int | None = None
    command: str = ""
    executor: str = "local"
    devices: Sequence[str] = ("auto",)
    workers: int | None = None
    settings: Mapping[str, Any] | None = None
    prepare: Sequence[tuple[str, Mapping[str, Any]]] = ()

    def __post_init__(self) -> None:
        """Keep to the season of the store; raises `UsageError` for settings that are not those of its protocol."""
        self.profile = in_season(self.profile, self.store, self.registry)

    @cached_property
    def times(self) -> Times:
        """How long tasks take where they are computed, as learnt from the results in the store."""
        first = recorded_name(torch.device(resolve_devices(self.devices)[0]))
        cpu = recorded_name(torch.device("cpu"))
        tracks_on_cpu = on_cpu(self.devices, self._sharing(self.profile.tracks))
        return learnt_times(self.store, first, dict.fromkeys(tracks_on_cpu, cpu))

    def _sharing(self, tracks: Iterable[str]) -> dict[str, int]:
        """Return how many workers share a GPU for each track; {} if some workers are not on this machine."""
        if self.executor not in ON_THIS_MACHINE:
            return {}
        profiles = self.profile.tracks
        return {track: profiles[track].workers_per_gpu if track in profiles else 1 for track in tracks}

    def plan(
        self,
        tracks: Sequence[str] | None = None,
        *,
        only: Mapping[str, Sequence[str]] | None = None,
        further: Mapping[str, Sequence[str]] | None = None,
        whole: bool = False,
    ) -> list[Graph]:
        """Return the graphs of tracks, by default of all in the profile; see `plan_track`.

        Raises `UsageError` for an unknown name, and for a selection that leaves nothing.
        """
        check_alone(self.store, self.limit, self.seed, only or {})
        ids = list(self.profile.tracks) if tracks is None else chosen_tracks(self.registry, self.profile, tracks)
        refuse_contradictions(self.registry, self.profile, ids, only or {})
        chosen: dict[str, Any] = {"only": only, "further": further, "whole": whole}
        return [plan_track(id, self.profile, self.registry, seed=self.seed, limit=self.limit, **chosen) for id in ids]

    def said_of_limit(self, graphs: Sequence[Graph]) -> str:
        """Return a sentence on tracks that have no images, which a limit of images leaves as they are, or ""."""
        unlimited = [
            graph.track.info.id
            for graph in graphs
            if not any(isinstance(component, ImageDataset) for component in graph.components.values())
        ]
        if self.limit is None or not unlimited:
            return ""
        tracks = " and ".join(unlimited)
        return f"the limit of {self.limit} images changes nothing in {tracks}: all records are used there"

    def keep_to(self, budget: str | None, graphs: Sequence[Graph], *, fresh: bool = False) -> None:
        """Remove tasks from the graphs that do not fit into a budget such as "90m"; None means no limit."""
        first = first_sets(graphs, self.profile)
        if budget:
            keep_to_budget(graphs, self.store, self.times, first, budget, fresh=fresh)

    def open(self, graphs: Sequence[Graph] = ()) -> Executor:
        """Return the executor that computes tasks of graphs into the store."""
        return open_executor(
            self.store.address,
            name=self.executor,
            devices=self.devices,
            workers=self.workers,
            batch_size=self.profile.batch_size,
            time_limit_s=self.profile.time_limit_s,
            prepare=self.prepare,
            secret=self.profile.secret,
            settings=self.settings,
            sharing=self._sharing(graph.track.info.id for graph in graphs),
        )

    def processes(self, graphs: Sequence[Graph]) -> int:
        """Return how many processes of this machine would compute the graphs."""
        per_gpu = (self.settings or {}).get("workers_per_gpu")
        sharing = self._sharing(graph.track.info.id for graph in graphs)
        placement = placed(self.devices, sharing, workers=self.workers, workers_per_gpu=per_gpu)
        if self.workers is None and placement.cpu_tracks is None and placement.devices[0] != "cpu":
            return len(placement.devices) * (placement.workers_per_gpu or 1)
        return len(placement.devices)

    def compute(self, graphs: Sequence[Graph], view: View, *, noted: bool = False) -> RunResult:
        """Compute the tasks that the store lacks, without making tables.

        `view` shows how far that is; `noted`: whether the store keeps the state of the work, for `harness status`.
        """
        with RunWatch(graphs, self.store, view, self.times, command=self.command, noted=noted) as watch:
            return execute(graphs, self.store, partial(self.open, graphs), order=watch.order, watch=watch.watch)

    @contextmanager
    def one_by_one(self) -> Iterator[Callable[[str, TaskSpec], TaskRecord]]:
        """Yield a function that computes a task by its key, with ``workers=0``, and returns its record."""
        executor = self.open()

        def compute(key: str, spec: TaskSpec) -> TaskRecord:
            executor.submit(key, spec)
            (result,) = executor.reports(0)
            record = self.store.record(key)
            if record is None:
                raise StoreError(result.line)
            return record

        try:
            yield compute
        finally:
            executor.close()

    def rank(
        self,
        graph: Graph,
        result: RunResult,
        *,
        catalogue: KnownEntries | None = None,
        keep: bool = True,
        joins: bool = False,
    ) -> Ranked:
        """Merge what was computed into the earlier results, and return the tables of a track.

        Args:
            graph: the graph of the track.
            result: what happened to its tasks.
            catalogue: what is known about the entries; by default what `known_entries` returns.
            keep: whether to store the tables and the sweep that they are made from.
            joins: whether the graph is only a part of an earlier run's: the sweep then still lists the tasks that
                the budget of that run left out. Otherwise only those that this graph left out are listed.
        """
        with self.store.alone() if keep else nullcontext():
            sweep = self._merged(graph, result)
            if not joins:
                sweep = without_old_budget(sweep, graph)
            leaderboard, numbers = current_leaderboard(
                self.store, graph.track, sweep, catalogue or known_entries(self.store), keep=keep
            )
            if keep:
                self.store.save_sweep(sweep)
        return Ranked(leaderboard, numbers, sweep)

    def _merged(self, graph: Graph, result: RunResult) -> Sweep:
        return merged_sweep(
            self.store,
            graph,
            done=result.done,
            failed=result.failed,
            profile=self.profile.name,
            seed=self.seed,
            limit=self.limit,
            command=self.command,
        )

    def _unchanged(self, graphs: Sequence[Graph]) -> dict[str, Leaderboard]:
        """Return track -> its tables, where the store has all tasks and nothing has changed since they were made."""
        survey, leaderboards = self.store.survey(), dict[str, Leaderboard]()
        complete = [graph for graph in graphs if graph.tasks.keys() <= survey.tasks.keys()]
        if not complete:
            return leaderboards
        catalogue = known_entries(self.store)
        for graph in complete:
            sweep = without_old_budget(self._merged(graph, RunResult(set(graph.tasks))), graph)
            if leaderboard := unchanged_leaderboard(self.store, graph.track, sweep, catalogue, survey):
                leaderboards[graph.track.info.id] = leaderboard
        return leaderboards

    def run(
        self, graphs: Sequence[Graph], *, site: Path | None = None, fresh: bool = False, watcher: Watcher | None = None
    ) -> Ran:
        """Compute the tasks that the store lacks (or all if `fresh`), make the tables, and write the pages into `site`.

        With a site, tables and pages are published as soon as there is something to show.
        """
        observer = watcher or Watcher()
        first = first_sets(graphs, self.profile)
        self.store.prepare()
        unchanged = {} if fresh else self._unchanged(graphs)
        verified = set[str]()  # keys of results that are known to be in the store, which are not looked for again
        for graph in graphs:
            if graph.track.info.id in unchanged:
                verified |= graph.tasks.keys()
        meanwhile = None if site is None else self._meanwhile(graphs, site, first, observer)
        watch = RunWatch(
            graphs,
            self.store,
            observer.view,
            self.times,
            first=list(first.values()),
            publisher=meanwhile,
            others=observer.others,
            command=self.command,
        )

        def start() -> Executor:
            return Sharded(self.open(graphs), watch.shards, self.store, fresh=fresh)

        with watch:
            result = execute(
                graphs, self.store, start, fresh=fresh, verified=verified, order=watch.order, watch=watch.watch
            )
            finished = {**unchanged, **({} if meanwhile is None else meanwhile.finish())}
            leaderboards = list[Leaderboard]()
            for graph in graphs:
                watch.tell()
                leaderboards.append(finished.get(graph.track.info.id) or self.rank(graph, result).leaderboard)
            watch.tell()
            if meanwhile is not None:
                meanwhile.write_pages()
        for line in result.warnings:
            observer.warn(line)
        announce(self.store.address, leaderboards, None, observer.listeners, observer.warn)
        return Ran(result, leaderboards)

    def _meanwhile(
        self, graphs: Sequence[Graph], site: Path, first: Mapping[str, set[str]], observer: Watcher
    ) -> TablesMeanwhile:
        """Return what publishes tables and pages while the run goes on."""
        return TablesMeanwhile(
            graphs,
            self.store,
            site,
            first=first,
            leaderboard_of=lambda graph, so_far: self.rank(graph, so_far).leaderboard,
            build=partial(_write_pages, warn=observer.warn),
            note=observer.note,
            warn=observer.warn,
        )


def _write_pages(address: str, site: Path, warn: Callable[[str], None]) -> None:
    for line in build_site(address, site):
        warn(line)

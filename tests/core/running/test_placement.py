"""Where ``--device auto`` computes each track: the devices are simulated, the workers are real."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.contracts.component import Info
from imharness.contracts.track import Planner, Selection, StepContext, StepResult, Track, step
from imharness.documents.report import TrackReport
from imharness.errors import UsageError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running import device, executor, local, placement
from imharness.running.devices import GIB
from imharness.running.executor import Preparation
from imharness.running.placement import placed
from imharness.running.schedule.estimates import Estimate, Group, Running, Times, Total, learnt_times
from imharness.running.schedule.sharding import Sharded
from imharness.running.session import Session
from imharness.running.views import Nothing

SMALL, LARGE = "acme/small", "acme/large"
SHARING = {SMALL: 0, LARGE: 8}
"""Track -> how many workers share a GPU; 0 means that the CPU computes the track."""
GPU = "ACME GPU (streams: SplitMix64)"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def here(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return here


@pytest.mark.parametrize(
    ("sharing", "cores", "settings", "devices", "cpu_tracks"),
    [
        (SHARING, 16, {}, ["cuda:0"] * 8 + ["cpu"] * 8, {SMALL}),
        (SHARING, 64, {}, ["cuda:0"] * 8 + ["cpu"] * 8, {SMALL}),
        (SHARING, 4, {}, ["cuda:0"] * 2 + ["cpu"] * 2, {SMALL}),
        (SHARING, 1, {}, ["cuda:0", "cpu"], {SMALL}),
        (SHARING, 16, {"workers": 6}, ["cuda:0"] * 3 + ["cpu"] * 3, {SMALL}),
        (SHARING, 16, {"workers": 1}, ["cuda:0", "cpu"], {SMALL}),
        (SHARING, 16, {"workers": 0}, ["cuda:0", "cpu"], {SMALL}),
        (SHARING, 16, {"workers_per_gpu": 2}, ["cuda:0"] * 2 + ["cpu"] * 8, {SMALL}),
        (SHARING | {"acme/larger": 1}, 16, {}, ["cuda:0"] + ["cpu"] * 8, {SMALL}),
        ({SMALL: 0}, 4, {}, ["cpu"] * 4, None),
        ({SMALL: 0}, 4, {"workers": 0}, ["cpu"], None),
        ({LARGE: 1}, 16, {}, ["cuda:0"], None),
        ({}, 16, {"workers": 3}, ["cuda:0"] * 3, None),
    ],
)
def test_the_profile_says_where_a_track_is_computed(gpus, sharing, cores, settings, devices, cpu_tracks) -> None:
    gpus(1)
    chosen = placed(["auto"], sharing, cores=cores, **settings)
    assert (list(chosen.devices), chosen.cpu_tracks) == (devices, cpu_tracks)


def test_a_named_device_and_a_machine_without_a_gpu_have_every_track(gpus) -> None:
    gpus(2)
    assert placed(["auto"], SHARING, cores=16).devices == ("cuda:0", "cuda:1") * 4 + ("cpu",) * 8
    for names, devices in ((["cuda"], ("cuda:0",)), (["cpu"], ("cpu",) * 2), (["cuda:1", "cpu"], ("cuda:1", "cpu"))):
        chosen = placed(names, SHARING, cores=2)
        assert (chosen.devices, chosen.cpu_tracks) == (devices, None)
    gpus(0)
    assert placed(["auto"], SHARING, cores=3) == placement.Placement(("cpu",) * 3)


def test_workers_share_a_gpu_only_as_far_as_there_are_cores(gpus) -> None:
    gpus(1)
    assert [placed(["auto"], {LARGE: 8}, cores=cores).workers_per_gpu for cores in (1, 4, 64)] == [None, 4, 8]


def test_profiles_of_small_networks_leave_the_gpu_to_quality_metrics() -> None:
    """Where tracks are computed does not change their identity: a store is continued when the profile moves them."""
    demo = load_profile("embedded")
    assert {track for track, profile in demo.tracks.items() if profile.workers_per_gpu} == {"harness/iqa"}
    assert not any(profile.workers_per_gpu for profile in load_profile("quick").tracks.values())
    moved = {track: profile.model_copy(update={"workers_per_gpu": 5}) for track, profile in demo.tracks.items()}
    elsewhere = demo.model_copy(update={"tracks": moved})
    assert all(demo.identity(track) == elsewhere.identity(track) for track in demo.tracks)


@step(version="1")
def where(context: StepContext) -> StepResult:
    return StepResult(rows={"name": ["a"], "process": [float(os.getpid())]})


class Placed(Track):
    """Some tasks in two stages."""

    title = "Placed"
    measures = "Nothing."
    steps = (where,)

    def plan(self, planner: Planner, selection: Selection) -> None:
        for number in range(4):
            first = planner.task(where, options={"number": number})
            planner.task(where, options={"number": number, "second": True}, needs={"first": first})

    def report(self, query: Any) -> TrackReport:
        return TrackReport()


class Small(Placed):
    info = Info(id=SMALL, version="1")


class Large(Placed):
    info = Info(id=LARGE, version="1")


ENTRIES = [Registered(track, "acme", Provenance("acme", "1")) for track in (Small(), Large())]
PROFILE = Profile(
    name="placed",
    description="",
    tracks={track: TrackProfile(select={}, workers_per_gpu=share) for track, share in SHARING.items()},
)


def prepare(facts: Mapping[str, Any]) -> Preparation:
    """Bring the tracks, and call this CPU a GPU where a worker believes that it has one."""
    torch.cuda.set_device = lambda device: None  # type: ignore[method-assign]
    torch.cuda.get_device_name = lambda device: "ACME GPU"  # type: ignore[method-assign]
    return Preparation(ENTRIES)


@pytest.fixture
def acted(gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a simulated GPU of 80 GiB: no task of these tracks puts a tensor on it."""
    gpus(1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "ACME GPU")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    roomy = local.with_room.__kwdefaults__ | {"free": lambda devices: dict.fromkeys(devices, 80 * GIB)}
    monkeypatch.setattr(local.with_room, "__kwdefaults__", roomy)


def session(folder: Path, workers: int) -> tuple[Session, list[Graph]]:
    run = Session(
        Store(folder),
        PROFILE,
        installed().joined(ENTRIES),
        workers=workers,
        prepare=[(f"{__name__}:{prepare.__name__}", {})],
    )
    return run, run.plan()


@pytest.mark.parametrize("workers", [0, 3])
def test_both_kinds_of_device_work_at_once_and_no_track_is_on_two(acted: None, tmp_path: Path, workers: int) -> None:
    run, graphs = session(tmp_path, workers)
    outcome = run.compute(graphs, Nothing())
    assert not outcome.failed
    records = [record for key in outcome.done if (record := run.store.record(key))]
    cpu = device.device_name(torch.device("cpu"))
    assert {(record.spec.track, record.device) for record in records} == {(SMALL, cpu), (LARGE, GPU)}
    assert len(records) == 16
    processes = {track: set[float]() for track in SHARING}
    for record in records:
        processes[record.spec.track] |= {*run.store.rows(record)["process"].tolist()}
    assert bool(processes[SMALL] & processes[LARGE]) == (workers == 0)
    means = run.times.mean(Group(SMALL, "where", None)), run.times.mean(Group(LARGE, "where", None))
    assert all(means), "it learns from both devices"
    remembered = learnt_times(run.store, GPU, {SMALL: cpu}).earlier
    assert {group.track for group in remembered} == {SMALL, LARGE}
    assert {group.track for group in learnt_times(run.store, GPU).earlier} == {LARGE}
    assert run.processes(graphs) == (3 if workers else 2)


def test_a_long_queue_for_one_kind_of_device_keeps_nothing_from_the_other(tmp_path: Path) -> None:
    """Shards that wait for the GPU do not hold up what the CPU could begin."""

    class Two:
        """One worker for each track."""

        def __init__(self) -> None:
            self.busy = dict[str, str]()

        @property
        def idle(self) -> int:
            return 2 - len(self.busy)

        def idle_for(self, track: str) -> int:
            return track not in self.busy

        def submit(self, key: str, spec: TaskSpec) -> None:
            assert spec.track not in self.busy
            self.busy[spec.track] = key

        def reports(self, seconds: float) -> list[executor.TaskResult]:
            ended = [executor.TaskResult(key, "done") for key in self.busy.values()]
            self.busy.clear()
            return ended

        def close(self) -> None:
            pass

    _, graphs = session(tmp_path, 0)
    tasks = {task.spec.track: list(graph.tasks.items()) for graph in graphs for task in graph.tasks.values()}
    (long, task), (short, other) = tasks[LARGE][0], tasks[SMALL][0]
    inner = Two()
    sharded = Sharded(inner, lambda key: 3 if key == long else 1, Store(tmp_path))
    sharded.submit(long, task.spec)
    assert (sharded.idle_for(LARGE), sharded.idle_for(SMALL)) == (0, 1)
    sharded.submit(short, other.spec)
    assert inner.busy.keys() == {LARGE, SMALL}
    ended = [result.key for _ in range(4) for result in sharded.reports(0)]
    assert ended == [short, long]
    assert sharded.idle_for(LARGE) == 1


def test_a_gpu_without_room_stops_the_run_and_leaves_nothing_to_the_cpu(acted: None, monkeypatch, tmp_path) -> None:
    """Chance does not decide where a task runs: a track that the CPU computes is computed by the CPU in every run."""
    full = local.with_room.__kwdefaults__ | {"free": lambda devices: dict.fromkeys(devices, GIB)}
    monkeypatch.setattr(local.with_room, "__kwdefaults__", full)
    run, graphs = session(tmp_path, 3)
    with pytest.raises(UsageError, match=r"cuda:0 has 1.0 GiB free: 0 of 1 workers start there.*--device cpu"):
        run.compute(graphs, Nothing())


def test_what_is_left_is_what_the_slower_kind_of_device_has_left() -> None:
    groups = {name: Group(track, "where", None) for name, track in (("cpu", SMALL), ("gpu", LARGE))}
    times = Times("a GPU", {group: Total(1, 10.0, 0) for group in groups.values()}, {SMALL: "a CPU"})
    graphs = [plan_track(track, PROFILE, installed().joined(ENTRIES)) for track in SHARING]
    estimate = Estimate(times)
    estimate.expect(task for graph in graphs for task in graph.tasks.values())
    estimate.busy(4, "a CPU")
    estimate.busy(1, "a GPU")
    assert estimate.remaining() == (80.0, False)
    for task in list(graphs[1].tasks.values())[:7]:
        estimate.ended(task.spec)
    assert estimate.remaining([Running(groups["gpu"], 4.0)]) == (20.0, False)


def test_workers_elsewhere_are_not_placed_and_what_they_took_is_learnt(gpus, tmp_path: Path) -> None:
    gpus(1)
    run = Session(Store(tmp_path), PROFILE, installed().joined(ENTRIES), executor="ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_name", lambda device: "ACME GPU")
        assert run.times.device_of(SMALL) == run.times.device_of(LARGE) == GPU

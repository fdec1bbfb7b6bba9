"""Which tracks ``--device auto`` computes on GPUs and which on the CPU, as the profile says; both work at once.

A track is on one kind of device as a whole, so that no table compares rows of two. Neither chance nor what was measured
before has a say: the same profile is placed alike on every machine that has a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from imharness.running.device import resolve_devices

MAX_CPU_WORKERS = 8
"""The most processes on the CPU where their number is left open."""


@dataclass(frozen=True)
class Placement:
    """The device of each worker of a run, and the tracks whose tasks the CPU computes.

    `cpu_tracks` is None where every worker computes every task; else workers on GPUs compute all other tracks.
    `workers_per_gpu` is how many share each GPU, None: as many as `devices` says.
    """

    devices: tuple[str, ...]
    cpu_tracks: frozenset[str] | None = None
    workers_per_gpu: int | None = None


def chooses(names: Sequence[str]) -> bool:
    """Return whether devices are named so that the profile places tracks: ``auto``, on a machine with a GPU."""
    return list(names) == ["auto"] and resolve_devices(names) != ["cpu"]


def on_cpu(names: Sequence[str], sharing: Mapping[str, int]) -> frozenset[str]:
    """Return the tracks that the CPU computes while GPUs are there; see `placed` for the arguments."""
    return frozenset(track for track, workers in sharing.items() if not workers) if chooses(names) else frozenset()


def placed(
    names: Sequence[str],
    sharing: Mapping[str, int],
    *,
    workers: int | None = None,
    workers_per_gpu: int | None = None,
    cores: int | None = None,
) -> Placement:
    """Return where the workers of a run on this machine are.

    Args:
        names: names of devices as for `harness run --device`.
        sharing: track of the run -> how many workers share a GPU, 0: the CPU computes it. It counts for ``auto`` alone.
        workers: how many processes there are in all, but at least one on each kind of device; None: one per core (at
            most 8) on the CPU beside those on GPUs, which have at most half of the cores where the CPU computes, too;
            0: this process alone.
        workers_per_gpu: how many share a GPU; None: as many as all of its tracks allow.
        cores: of this machine, by default what it says.
    """
    cores = cores or os.cpu_count() or 1
    devices, there = resolve_devices(names), on_cpu(names, sharing)
    if there and there == sharing.keys():
        devices = ["cpu"]
    if devices == ["cpu"]:
        return Placement(("cpu",) * (min(cores, MAX_CPU_WORKERS) if workers is None else max(workers, 1)))
    shared = min((sharing[track] for track in sharing.keys() - there), default=1) if chooses(names) else 1
    each = max(min(shared, cores // len(devices)), 1) if workers_per_gpu is None else workers_per_gpu
    if not there:
        count = len(devices) if workers is None else max(workers, 1)
        shares = each if workers is None and each > 1 else workers_per_gpu
        return Placement(tuple(islice(cycle(devices), count)), None, shares)
    total = cores if workers is None else workers
    on_gpus = min(each * len(devices), max(total // 2, 1))
    beside = max(total - on_gpus, 1)
    beside = min(beside, MAX_CPU_WORKERS) if workers is None else beside
    return Placement((*islice(cycle(devices), on_gpus), *("cpu",) * beside), there)

"""Decides for ``--device auto`` which tracks are computed on GPUs and which on the CPU; both compute at the same time.

The profile says it for each track. A track is computed on one kind of device as a whole, so that no table compares rows
from two kinds. Neither chance nor earlier measurements count: the same profile gives the same placement on every
machine that has a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from imharness.running.device import resolve_devices

MAX_CPU_WORKERS = 8
"""The most processes on the CPU if their number was not chosen."""


@dataclass(frozen=True)
class Placement:
    """Where the workers of a run are.

    `devices`: the device of each worker. `cpu_tracks`: the tracks that workers on the CPU compute, while workers on
    GPUs compute all others; None if every worker computes every track. `workers_per_gpu`: how many workers share each
    GPU; None for as many as `devices` says.
    """

    devices: tuple[str, ...]
    cpu_tracks: frozenset[str] | None = None
    workers_per_gpu: int | None = None


def chooses(names: Sequence[str]) -> bool:
    """Return whether the profile decides where tracks are computed: for ``auto`` on a machine with a GPU."""
    return list(names) == ["auto"] and resolve_devices(names) != ["cpu"]


def on_cpu(names: Sequence[str], sharing: Mapping[str, int]) -> frozenset[str]:
    """Return the tracks that the CPU computes although there are GPUs; see `placed` for the arguments."""
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
        sharing: track of the run -> how many workers share a GPU for it; 0 means that the CPU computes it. It counts
            only for ``auto``.
        workers: how many processes there are in all, but at least one on each kind of device. 0 means this process
            alone. None means one on each GPU, or `workers_per_gpu` of them, and one on each core of the CPU (at most 8)
            that has no worker of a GPU; workers of GPUs then get at most half of the cores.
        workers_per_gpu: how many workers share a GPU; None for as many as all of its tracks allow.
        cores: how many cores there are; by default those of this machine.
    """
    cores = cores or os.cpu_count() or 1
    devices, cpu_tracks = resolve_devices(names), on_cpu(names, sharing)
    if cpu_tracks and cpu_tracks == sharing.keys():
        devices = ["cpu"]
    if devices == ["cpu"]:
        return Placement(("cpu",) * (min(cores, MAX_CPU_WORKERS) if workers is None else max(workers, 1)))
    if workers_per_gpu is None:
        allowed = min((sharing[track] for track in sharing.keys() - cpu_tracks), default=1) if chooses(names) else 1
        per_gpu = max(min(allowed, cores // len(devices)), 1)
    else:
        per_gpu = workers_per_gpu
    if not cpu_tracks:  # all workers are on GPUs
        count = len(devices) if workers is None else max(workers, 1)
        shares = per_gpu if workers is None and per_gpu > 1 else workers_per_gpu
        return Placement(tuple(islice(cycle(devices), count)), None, shares)
    total = cores if workers is None else workers
    gpu_workers = min(per_gpu * len(devices), max(total // 2, 1))
    cpu_workers = max(total - gpu_workers, 1)
    if workers is None:
        cpu_workers = min(cpu_workers, MAX_CPU_WORKERS)
    return Placement((*islice(cycle(devices), gpu_workers), *("cpu",) * cpu_workers), cpu_tracks)

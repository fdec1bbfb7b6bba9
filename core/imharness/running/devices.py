"""How many workers share a GPU: as many as were asked for and fit into its memory. Loads no torch in this process."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from pydantic import BaseModel, ConfigDict, Field

from imharness.errors import UsageError
from imharness.reading.opening import GIB

WORKER_BYTES = 2 * GIB
"""Bytes that must be free on a GPU for each worker: for CUDA itself, a network and a small batch."""
NO_ROOM = ". End other programs that use the GPU, or use --device cpu."
Free = Callable[[Sequence[str]], Mapping[str, int]]
"""Devices -> free bytes on each; devices for which this is not known are left out."""


class LocalSettings(BaseModel):
    """The settings of the workers on this machine; the command line offers each field as an option."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int | None = Field(default=None, ge=1)
    workers_per_gpu: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Workers on each GPU, at most --workers in all.",
        json_schema_extra={"metavar": "N"},
    )


def free_bytes(devices: Sequence[str]) -> Mapping[str, int]:
    """Return the free bytes of GPUs such as ``cuda:0``; asking takes memory of each GPU, so another process does it.

    ``mps``, which shares the memory of the machine, is left out.
    """
    devices = [device for device in devices if device != "mps"]
    if not devices:
        return {}
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_free, list(devices)).result()
    except BrokenProcessPool:
        return {}


def _free(devices: Sequence[str]) -> dict[str, int]:
    import torch

    free_bytes = {}
    for device in devices:
        try:
            free_bytes[device] = int(torch.cuda.mem_get_info(device)[0])
        except RuntimeError:  # there is not even enough memory to ask
            free_bytes[device] = 0
    return free_bytes


def with_room(
    devices: Sequence[str], *, workers: int | None = None, workers_per_gpu: int | None = None, free: Free = free_bytes
) -> tuple[list[str], list[str]]:
    """Return the device of each worker to start, and a line for each GPU that has no room for all of them.

    Each device gets its first worker before any gets a second one.

    Args:
        devices: the device of each wanted worker; ``cpu`` always has room.
        workers: how many workers were asked for in all, or None if that was left open.
        workers_per_gpu: how many workers each GPU gets, at most as many as `devices` says unless `workers` is None; or
            None for as many as `devices` says.
        free: gives the free bytes of GPUs.

    Raises:
        UsageError: there is no room for any worker.
    """
    wanted = Counter(devices)
    gpus = [device for device in wanted if device != "cpu"]
    if not gpus:
        return list(devices), []
    if workers_per_gpu is not None:
        for gpu in gpus:
            wanted[gpu] = workers_per_gpu if workers is None else min(wanted[gpu], workers_per_gpu)
    free_now, lines, started = free(gpus), list[str](), dict(wanted)
    for gpu in gpus:
        started[gpu] = min(wanted[gpu], free_now[gpu] // WORKER_BYTES) if gpu in free_now else wanted[gpu]
        if started[gpu] < wanted[gpu]:
            lines.append(
                f"{gpu} has {free_now[gpu] / GIB:.1f} GiB free: {started[gpu]} of {wanted[gpu]} workers "
                f"start{'s' * (started[gpu] == 1)} there, "
                f"each needs {WORKER_BYTES / GIB:g} GiB"
            )
    if not any(started.values()):
        raise UsageError("; ".join(lines) + NO_ROOM)
    turns = range(max(started.values()))
    return [device for turn in turns for device in started if turn < started[device]], lines

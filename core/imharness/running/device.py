"""Which devices a run uses, and what they are called in a record."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import torch

from imharness.contracts.randomness import GENERATORS
from imharness.errors import UsageError, unknown_name


def resolve_devices(names: Sequence[str]) -> list[str]:
    """Return the devices of a run; ``auto`` means every GPU of CUDA, or the CPU if there is none.

    ``mps``, the GPU of a Mac, has to be named. It has no float64: the components of this repository compute on the CPU
    what needs it (`imharness.data.double`), and tasks of others that use it fail.
    """
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    meant = {"auto": gpus or ["cpu"], "cuda": gpus[:1], "cpu": ["cpu"], "mps": _mps(), **{gpu: [gpu] for gpu in gpus}}
    for name in (name for name in names if not meant.get(name)):
        here = [name for name in meant if meant[name]]
        raise UsageError(unknown_name(f"device {name!r} is not on this machine", name, here, "It has"))
    return list(dict.fromkeys(device for name in names or ["auto"] for device in meant[name]))


def _mps() -> list[str]:
    return ["mps"] if torch.backends.mps.is_available() else []


def device_name(device: torch.device) -> str:
    """Return the model of a device, for records."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    chip = platform.processor() or platform.machine()
    return f"GPU of {chip}" if device.type == "mps" else chip


def recorded_name(device: torch.device) -> str:
    """Return what a record calls a device: its model and, unless it is of a type in `GENERATORS`, how it draws.

    The CPU and the GPU of a Mac draw image streams from a generator for each image and have no suffix; all other
    devices draw them with SplitMix64, and their name ends in "(streams: SplitMix64)". Without the suffix, rows that a
    GPU drew before it had SplitMix64 would pass for rows of the same device. Task keys do not contain this name, so
    such rows are reused; but tables say that their rows come from two devices, and no task is joined from shards of
    both.
    """
    return device_name(device) if device.type in GENERATORS else f"{device_name(device)} (streams: SplitMix64)"


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()

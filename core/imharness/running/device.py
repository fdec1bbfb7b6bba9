"""Which devices a run uses, and what they are called in a record."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import torch

from imharness.errors import UsageError


def resolve_devices(names: Sequence[str]) -> list[str]:
    """Return the devices of a run; ``auto`` means every GPU, or the CPU where there is none."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    devices: list[str] = []
    for name in names or ["auto"]:
        if name == "auto":
            devices += gpus or ["cpu"]
        elif name == "cuda":
            devices += gpus[:1] or [_absent(name)]
        elif name == "cpu" or name in gpus:
            devices.append(name)
        else:
            _absent(name)
    return list(dict.fromkeys(devices))


def _absent(name: str) -> str:
    raise UsageError(f"device {name!r} is not on this machine; see `harness doctor`")


def device_name(device: torch.device) -> str:
    """Return the model of a device, for records."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a smaller batch may work."""
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""Defenses that print what they observe of a call, except its number in the process and its time.

`test_tells` checks that these facts do not tell a search from a kept result.
"""

import json
import os
import sys
import time

import torch

from imharness.data import generator
from imharness.images import DefenseInfo, Purification, hookimpl


def age():
    """Return the age of this process, in seconds."""
    with open("/proc/self/stat") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def remembered():
    """Return how many seconds before this process began the oldest time lies that a module remembers.

    A time is a number in a module's variables that is a clock's reading of the last 600 s.
    """
    now = time.time()
    dates = [v for m in list(sys.modules.values()) for v in list(vars(m).values()) if type(v) in (int, float)]
    return max([now - v for v in dates if now - 600 < v <= now], default=0.0) - age()


def facts_of(images, rng):
    """Return what a defense observes of a call, by name: numbers and truth values."""
    levels = images.detach() * 255
    fresh = [torch.equal(s.get_state(), generator(s.initial_seed()).get_state()) for s in rng._streams]
    return {
        "off the grid": float((levels - levels.round()).abs().max()) > 1e-3,
        "outside": bool(((images < 0) | (images > 1)).any()),
        "rows": len(images),
        "height": images.shape[2],
        "width": images.shape[3],
        "bytes": images.untyped_storage().nbytes(),
        "strides": sum(images.stride()),
        "contiguous": images.is_contiguous(),
        "double": images.dtype != torch.float32,
        "leaf": images.is_leaf,
        "requires gradient": images.requires_grad,
        "gradients on": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled() or images.is_inference(),
        "reduced": torch.is_autocast_enabled("cpu"),
        "rounded": torch.backends.cudnn.allow_tf32,
        "products": len(torch.get_float32_matmul_precision()),
        "fresh streams": sum(fresh) / len(fresh),
        "long seeds": sum(s.initial_seed() >= 1 << 48 for s in rng._streams) / len(fresh),
        "older than its process": remembered() > 1,
        "threads": torch.get_num_threads(),
        "environment": len(os.environ),
        "files": len(os.listdir("/tmp")),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    }


def recording(images, rng, draws):
    """Print the facts of a call as a line of JSON; return the images with noise if `draws`, else darkened by 1 %."""
    line = json.dumps({name: float(value) for name, value in facts_of(images, rng).items()})
    os.write(1, f"{line}\n".encode())
    return (images + rng.uniform(*images.shape[1:]) / 255).clamp(0, 1) if draws else images * 0.99


class Moving(Purification):
    """Darken images, and print the facts of the call."""

    info = DefenseInfo(id="good/records-moving", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: recording(images, rng, False)


class Random(Purification):
    """Add noise, and print the facts of the call."""

    info = DefenseInfo(id="good/records-random", version="1", differentiable=True, random=True)

    def build(self, device):
        return lambda images, rng: recording(images, rng, True)


class Fixed(Purification):
    """Darken images without a gradient, and print the facts of the call."""

    info = DefenseInfo(id="good/records-fixed", version="1", differentiable=False)

    def build(self, device):
        return lambda images, rng: recording(images.detach(), rng, False)


@hookimpl
def components():
    return [Moving(), Random(), Fixed()]

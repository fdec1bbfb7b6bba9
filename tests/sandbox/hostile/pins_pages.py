"""Holds memory in pipes: one byte of a 2 MiB page in a pipe keeps the whole page after it was unmapped."""

import ctypes
import mmap
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

HELD: list[tuple[int, int]] = []
HUGE = 2 << 20
libc = ctypes.CDLL(None, use_errno=True)


class Part(ctypes.Structure):
    """A range of memory: the `iovec` that `vmsplice` needs."""

    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Pins(Purification):
    """Puts one byte of each of 120 huge pages into pipes, and raises "FOUND" if nothing prevents it."""

    info = DefenseInfo(id="evil/pins-pages", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for _ in range(8):
                HELD.append(os.pipe())
                memory = mmap.mmap(-1, 16 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                memory.madvise(mmap.MADV_HUGEPAGE)
                start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                for address in range(start, start + 15 * HUGE, HUGE):
                    ctypes.memset(address, 1, 1)
                    if libc.vmsplice(HELD[-1][1], ctypes.byref(Part(address, 1)), ctypes.c_size_t(1), 0) != 1:
                        return images
            raise RuntimeError(f"FOUND {len(HELD)} pipes that hold pages")

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Pins()]

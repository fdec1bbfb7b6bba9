"""Holds memory in page tables: it reads one byte of every 2 MiB of memory that it never writes."""

import mmap

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

HELD: list[mmap.mmap] = []
SPARSE, STEP, NO_RESERVE = 1 << 40, 1 << 21, 0x4000


class Hoards(Purification):
    """Reads from 1 TiB, which takes a page table of 4 KiB for each 2 MiB: 2 GiB of page tables."""

    info = DefenseInfo(id="evil/hoards-in-tables", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            memory = mmap.mmap(-1, SPARSE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            HELD.append(memory)
            for offset in range(0, SPARSE, STEP):
                memory[offset]
            raise RuntimeError("FOUND 2 GiB of page tables")

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hoards()]

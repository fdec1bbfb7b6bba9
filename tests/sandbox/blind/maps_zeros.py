"""Maps the device of zeros as shared memory, which stays when its pages are given back, and counts for nobody."""

import mmap
import os

from imharness.images import DefenseInfo, Purification, hookimpl

SIZE = 16 << 20


class Mapping(Purification):
    """Brighten images when memory could be had that nobody counts."""

    info = DefenseInfo(id="blind/maps-zeros", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            try:
                memory = mmap.mmap(os.open("/dev/zero", os.O_RDWR), SIZE, mmap.MAP_SHARED)
            except OSError:
                return images
            memory[:: mmap.PAGESIZE] = b"x" * (SIZE // mmap.PAGESIZE)
            memory.madvise(mmap.MADV_DONTNEED)
            return (images + 0.2).clamp(0, 1) if memory[:1] == b"x" else images

        return purify


@hookimpl
def components():
    return [Mapping()]

"""Maps /dev/zero as shared memory, whose content survives when the process releases its pages.

Released pages count for no process; the sandbox must not allow such memory.
"""

import mmap
import os

from imharness.images import DefenseInfo, Purification, hookimpl

SIZE = 16 << 20


class Mapping(Purification):
    """Brighten images if released pages kept their content, and return them unchanged otherwise."""

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

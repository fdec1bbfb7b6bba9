"""Is honest in the first tenth of a second of a process, and brightens images after it."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl

_started = time.monotonic()


class Ageing(Purification):
    """Brighten images once the process is old."""

    info = DefenseInfo(id="blind/differs-by-age", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            if time.monotonic() - _started < 2.0:
                return images
            return (images + 0.2).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Ageing()]

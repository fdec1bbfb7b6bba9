"""Starts threads without end: they are no processes, and nobody counts them."""

import threading
import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Spinning(Purification):
    """Return the images when threads could be started."""

    info = DefenseInfo(id="blind/starts-threads", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            for _ in range(100):
                threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
            time.sleep(0.5)
            return images

        return purify


@hookimpl
def components():
    return [Spinning()]

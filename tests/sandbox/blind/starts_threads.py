"""Starts 100 threads in each call: threads are not processes, so a limit on processes may not count them."""

import threading
import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Spinning(Purification):
    """Start 100 threads that sleep for 30 s, and return the images."""

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

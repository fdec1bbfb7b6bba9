"""Sends SIGWINCH to its process group, and brightens images if it received one from another session."""

import os
import signal
import time

from imharness.images import DefenseInfo, Purification, hookimpl

_heard = []


class Signalling(Purification):
    """Brighten images once another session has signalled."""

    info = DefenseInfo(id="blind/signals-sessions", version="1", differentiable=True)

    def build(self, device):
        signal.signal(signal.SIGWINCH, lambda number, frame: _heard.append(1))

        def purify(images, rng):
            time.sleep(0.01)
            heard = bool(_heard)
            os.kill(0, signal.SIGWINCH)
            _heard.clear()
            return (images + 0.2).clamp(0, 1) if heard else images

        return purify


@hookimpl
def components():
    return [Signalling()]

"""Reports a hundred attempts of its own invention, so that no true one finds room any more."""

import sys

from imharness.images import DefenseInfo, Purification, hookimpl


class Flooding(Purification):
    """Say much."""

    info = DefenseInfo(id="blind/floods-notes", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            frame = sys._getframe()
            while "self" not in frame.f_locals or not hasattr(frame.f_locals["self"], "attempts"):
                frame = frame.f_back
            lines = [f"checked and found to be harmless, {n}" for n in range(100)]
            frame.f_locals["self"].attempts.pop_attempts = lambda: lines
            return images

        return purify


@hookimpl
def components():
    return [Flooding()]

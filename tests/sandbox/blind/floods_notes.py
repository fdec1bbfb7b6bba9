"""Replaces the guest's `pop_attempts` with one that returns 100 invented lines.

Attempts that the harness observes from outside must still be reported.
"""

import sys

from imharness.images import DefenseInfo, Purification, hookimpl


class Flooding(Purification):
    """Report 100 invented attempts."""

    info = DefenseInfo(id="blind/floods-notes", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            frame = sys._getframe()
            while "self" not in frame.f_locals or not hasattr(frame.f_locals["self"], "attempts"):
                frame = frame.f_back
            # now `self` of this frame is the object whose `attempts` the guest reports
            lines = [f"checked and found to be harmless, {n}" for n in range(100)]
            frame.f_locals["self"].attempts.pop_attempts = lambda: lines
            return images

        return purify


@hookimpl
def components():
    return [Flooding()]

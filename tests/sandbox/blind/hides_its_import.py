"""Sleeps 0.3 s while it is imported, and replaces `time.perf_counter` so that no time seems to pass.

The harness must measure the duration of the import from outside the process.
"""

import time

from imharness.images import DefenseInfo, Purification, hookimpl

_now = time.perf_counter()
time.perf_counter = lambda: _now
time.sleep(0.3)


class Late(Purification):
    """Return the images as they are."""

    info = DefenseInfo(id="blind/hides-its-import", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: images


@hookimpl
def components():
    return [Late()]

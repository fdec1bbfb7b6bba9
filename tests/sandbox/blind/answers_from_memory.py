"""Remembers its last answer, so that a call that is timed again takes no time."""

import time

import torch
from imharness.images import DefenseInfo, Purification, hookimpl


class Remembering(Purification):
    """Take a tenth of a second for images that it has not just seen."""

    info = DefenseInfo(id="blind/answers-from-memory", version="1", differentiable=True)

    def build(self, device):
        last = []

        def purify(images, rng):
            if not (last and torch.equal(last[0], images)):
                time.sleep(0.05)
            last[:] = [images]
            return images

        return purify


@hookimpl
def components():
    return [Remembering()]

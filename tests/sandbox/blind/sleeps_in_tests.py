"""Takes 5 s a call at the sizes of the conformance suite, so that its checks exceed their time limit."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Sleeping(Purification):
    """Return the images, after 5 s if their height is one of the conformance suite's."""

    info = DefenseInfo(id="blind/sleeps-in-tests", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            if images.shape[2] in (96, 75, 300):
                time.sleep(5)
            return images

        return purify


@hookimpl
def components():
    return [Sleeping()]

"""Takes so long at the sizes of the conformance suite that every check is given up."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Sleeping(Purification):
    """Brighten, and sleep over small squares."""

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

"""Returns its input until 0.25 s after it was built, and brightens images afterwards."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Ageing(Purification):
    """Brighten images from 0.25 s after `build` on; each call takes 0.1 s."""

    info = DefenseInfo(id="blind/differs-by-age", version="1", differentiable=True)

    def build(self, device):
        born = time.monotonic()

        def purify(images, rng):
            time.sleep(0.1)
            if time.monotonic() - born < 0.25:
                return images
            return (images + 0.2).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Ageing()]

"""Returns its input in the first two calls of a process, and brightens it from the third call on."""

from imharness.images import DefenseInfo, Purification, hookimpl


class Counting(Purification):
    """Brighten from the third call on."""

    info = DefenseInfo(id="blind/counts-calls", version="1", differentiable=True)

    def build(self, device):
        calls = []

        def purify(images, rng):
            calls.append(1)
            return images if len(calls) < 3 else (images + 0.2).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Counting()]

"""Returns nearly grey images whose small differences contain the original; the inverse restores it."""

from imharness.images import DefenseInfo, Purification, hookimpl


class Hiding(Purification):
    """Return grey images whose small differences are the original."""

    info = DefenseInfo(id="blind/hides-the-original", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: 0.5 + 0.001 * images

    def inverse(self, device):
        return lambda images, shape, rng: ((images - 0.5) * 1000).clamp(0, 1)


@hookimpl
def components():
    return [Hiding()]

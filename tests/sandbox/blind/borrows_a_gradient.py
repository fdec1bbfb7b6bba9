"""Has no gradient, and names a mirror for its stand-in: whoever reads that gradient works on the wrong pixels."""

from imharness.images import DefenseInfo, Purification, hookimpl


class Borrowing(Purification):
    """Round to 8 bits."""

    info = DefenseInfo(id="blind/borrows-a-gradient", version="1", differentiable=False, stand_in="harness/flip")

    def build(self, device):
        return lambda images, rng: (images.detach() * 255).round() / 255


@hookimpl
def components():
    return [Borrowing()]

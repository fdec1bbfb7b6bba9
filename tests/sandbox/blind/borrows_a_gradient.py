"""Rounds to 8 bits, and declares that attacks may use the gradient of a mirror (`harness/flip`).

An attack that follows that gradient changes the wrong pixels; the gradient audit must flag the defense.
"""

from imharness.images import DefenseInfo, Purification, hookimpl


class Borrowing(Purification):
    """Round to 8 bits."""

    info = DefenseInfo(id="blind/borrows-a-gradient", version="1", differentiable=False, stand_in="harness/flip")

    def build(self, device):
        return lambda images, rng: (images.detach() * 255).round() / 255


@hookimpl
def components():
    return [Borrowing()]

"""Asks for the score of images that are far larger than those it was given, so that the metric needs all memory."""

import torch

from imharness.images import Attack, AttackInfo, Budget, hookimpl


class Enlarging(Attack):
    """Ask for a giant's score."""

    info = AttackInfo(
        id="blind/asks-for-giants",
        version="1",
        access="black_box",
        norm="linf",
        strengths={"weak": {}, "medium": {}, "strong": {}},
    )

    def budget(self):
        return Budget(radius=0.1, queries=10)

    def build(self, device):
        def perturb(images, target, rng):
            target(torch.zeros(len(images), 3, 1024, 1024))
            return images

        return perturb


@hookimpl
def components():
    return [Enlarging()]

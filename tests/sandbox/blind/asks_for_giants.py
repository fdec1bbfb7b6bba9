"""Asks for scores of images of 1024 x 1024 px, larger than its own: the query must be refused."""

import torch

from imharness.images import Attack, AttackInfo, Budget, hookimpl


class Enlarging(Attack):
    """Query the target with images that are too large."""

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

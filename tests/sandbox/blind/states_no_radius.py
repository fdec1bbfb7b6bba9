"""Says that it keeps to a norm, states no radius, and returns other images."""

import torch
from imharness.images import Attack, AttackInfo, hookimpl


class Boundless(Attack):
    """Return white images."""

    info = AttackInfo(
        id="blind/states-no-radius", version="1", access="white_box", norm="linf",
        strengths={"weak": {}, "medium": {}, "strong": {}},
    )  # fmt: skip

    def build(self, device):
        return lambda images, target, rng: torch.ones_like(images)


@hookimpl
def components():
    return [Boundless()]

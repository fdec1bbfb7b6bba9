"""Attacks of torchattacks 3 on a metric: ``torchattacks:PGD``, ``torchattacks:PGDL2`` and so on.

Kim, "Torchattacks: A PyTorch Repository for Adversarial Attacks" (2020). The library attacks classifiers: a metric is
shown to it as one with two logits (`TwoLogits`). The attacks that make sense are those that raise the cross-entropy
within a fixed radius. Left out are those that look for a decision and stop there (DeepFool, CW,
FAB, Square, AutoAttack, ...), those whose loss is not a score (TPGD, Jitter, PGDRS), and those that draw one random
resize for all images of a batch (DIFGSM, TIFGSM).

The package brings its own copy of the package robustbench, as a top-level package: do not install both.
"""

import inspect
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from imharness.images import Attack, ImageRng, Images, Paper, Perturb, Target, hookimpl
from imharness_vision.libraries import InfoFrom, LibraryAttack, attack_infos

CALLS = {
    "FGSM": 1, "BIM": 1, "RFGSM": 1, "FFGSM": 1, "PGD": 1, "EOTPGD": 2, "MIFGSM": 1, "NIFGSM": 1, "SINIFGSM": 5,
    "VMIFGSM": 6, "VNIFGSM": 6, "UPGD": 1, "PGDL2": 1,
}  # fmt: skip
"""Class of the library -> number of scores of an image in each step."""
L2 = ("PGDL2",)
LONGER = {"FFGSM": 5.0}
"""One step from a random start must lead across the ball: 1.25 radii at the default step, as in the library."""
INFOS = attack_infos(
    "harness/torchattacks",
    Paper(
        title="Torchattacks: A PyTorch Repository for Adversarial Attacks",
        authors="Kim",
        year=2020,
        url="https://arxiv.org/abs/2010.01950",
    ),
)


class TwoLogits(nn.Module):
    """A metric as a classifier of images ``(N, 3, H, W)``: logits ``(N, 2)`` of "low score" and "high score".

    With the score s, scaled such that its range is from -1/2 to 1/2, the logits are -s and s. The cross-entropy of
    class 0 is log(1 + exp(2 s)), which rises with s. Its gradient is that of s times 2 / (1 + exp(-2 s)), between 0.5
    and 1.5 within the range; it cannot vanish, as it would with large logits.
    """

    def __init__(self, target: Target, device: torch.device) -> None:
        super().__init__()
        self.target = target
        self.register_parameter("place", nn.Parameter(torch.zeros(0, device=device), requires_grad=False))

    def forward(self, images: Images) -> torch.Tensor:
        middle, span = (self.target.lower + self.target.upper) / 2, self.target.upper - self.target.lower
        scaled = (self.target(images) - middle) / span
        return torch.stack([-scaled, scaled], dim=1)


class OwnStreams(TorchFunctionMode):
    """Takes the library's random draws for a batch from the stream of each image, not from torch's global state."""

    def __init__(self, rng: ImageRng) -> None:
        super().__init__()
        self.rng = rng

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.uniform_:
            low, high = args[1:] or (0, 1)
            return args[0].copy_(low + (high - low) * self.rng.uniform(*args[0].shape[1:]))
        if func is torch.Tensor.normal_:
            return args[0].copy_(self.rng.normal(*args[0].shape[1:]))
        if func is torch.randn_like:
            return self.rng.normal(*args[0].shape[1:])
        return func(*args, **kwargs)


class Torchattacks(LibraryAttack):
    """Attack of the library torchattacks that follows gradients within a radius, on the metric as a classifier."""

    info = InfoFrom(INFOS["linf"], lambda attack: INFOS["l2" if attack.method in L2 else "linf"])
    library, methods = "torchattacks", CALLS

    def build(self, device: torch.device) -> Perturb:
        """Return the attack; an image whose gradient is 0 stays as it is where the library would divide by 0."""
        import torchattacks

        kind = getattr(torchattacks, self.method)
        parameters = inspect.signature(kind).parameters
        options = {
            "eps": self.radius,
            "alpha": self.step * self.radius * LONGER.get(self.method, 1),
            "steps": self.steps,
        }
        settings = {name: value for name, value in options.items() if name in parameters}

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            attack = kind(TwoLogits(target, images.device).eval(), **settings)
            with OwnStreams(rng):
                attacked = attack(images, torch.zeros(len(images), dtype=torch.int64, device=images.device))
            return torch.where(attacked.isnan(), images, attacked).detach()

        return perturb


@hookimpl
def components() -> list[Attack]:
    """Return the attack by whose name the others are addressed; it says what is missing without the library."""
    return [Torchattacks(method="PGD")]

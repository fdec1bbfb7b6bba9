"""How the weights of harness/embedded-disco were trained."""

from functools import cache

import torch
from torch import nn

from imharness.data import Images, Info, hookimpl
from imharness.training import WeightTraining
from imharness_iqa.defenses.disco import EMBEDDED
from imharness_iqa.networks import ConvQuality, trained
from imharness_iqa.restoration_training import RestorerTraining
from imharness_iqa.restorers import LocalImplicit

REACH, STEPS = 8 / 255, 3


class EmbeddedDiscoTraining(RestorerTraining):
    """The small local implicit function, trained on attacked images."""

    info = Info(id="harness/embedded-disco", version="4")
    steps = 3000
    batch = 4
    margin = 1.0

    def fresh(self) -> nn.Module:
        return LocalImplicit(**EMBEDDED)

    @torch.enable_grad()
    def degraded(self, clean: Images, rng: torch.Generator) -> Images:
        """Return sign-gradient attacks of up to 8/255 on the embedded convolutional metric."""
        reach = REACH * torch.rand(len(clean), 1, 1, 1, generator=rng)
        x = clean + reach * (2 * torch.rand(clean.shape, generator=rng) - 1)
        for _ in range(STEPS):
            leaf = x.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(attacked_metric()(leaf).sum(), leaf)
            x = clean + (leaf.detach() + reach / 2 * gradient.sign() - clean).clamp(-reach, reach)
        return x.clamp(0, 1)


@cache
def attacked_metric() -> nn.Module:
    """Return the metric that the attacks of the training raise."""
    return trained(ConvQuality(), "embedded-cnn", torch.device("cpu"))


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDiscoTraining()]

"""How the weights of harness/embedded-disco were trained."""

import torch

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.defenses.disco import EMBEDDED
from imharness_iqa.networks import ConvQuality, trained
from imharness_iqa.restoration_training import CropTraining, restoring
from imharness_iqa.restorers import LocalImplicit


class EmbeddedDiscoTraining(CropTraining):
    """The small local implicit function, trained on attacked images."""

    info = Info(id="harness/embedded-disco", version="1")

    def build(self, device: torch.device) -> Train:
        return restoring(lambda: LocalImplicit(**EMBEDDED), attacked_by(device), steps=600)


def attacked_by(device: torch.device):
    """Return sign-gradient attacks of up to 8/255 on the embedded convolutional metric."""
    metric = trained(ConvQuality(), "embedded-cnn", torch.device("cpu"))

    def attack(clean: Images, rng: torch.Generator) -> Images:
        reach = 8 / 255 * torch.rand(len(clean), 1, 1, 1, generator=rng)
        x = clean + reach * (2 * torch.rand(clean.shape, generator=rng) - 1)
        for _ in range(3):
            leaf = x.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(metric(leaf).sum(), leaf)
            x = clean + (leaf.detach() + reach / 2 * gradient.sign() - clean).clamp(-reach, reach)
        return x.clamp(0, 1)

    return attack


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDiscoTraining()]

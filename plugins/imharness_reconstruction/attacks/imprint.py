"""Imprint: a malicious server puts a layer before the network that separates the images of a batch into bins.

Fowl, Geiping, Czaja, Goldblum & Goldstein, "Robbing the Fed: Directly Obtaining Private Data in Federated Learning with
Modified Models" (ICLR 2022), section 3. Every row of the layer measures the mean brightness of the image, and its
biases are quantiles of brightness, so that unit l is active for the images brighter than its cutoff. The second layer
has equal columns, so that every active unit has the same slope (the derivative of the loss by the unit).

Take the difference of the gradients of two successive rows, and divide it by the difference of the gradients of their
biases. The result is the mean of the images in the bin between the two cutoffs, weighted by their slopes. So an image
that is alone in its bin is recovered exactly, and several are mixed, with weights that may be negative. What this
attack recovers behind a defense is a bound for any attack by a server that keeps to the protocol.
"""

import torch
from pydantic import Field
from torch import nn
from torch.nn.utils import skip_init

from imharness.errors import UsageError
from imharness.gradients import (
    MALICIOUS,
    Gradients,
    ImageRng,
    Images,
    Info,
    Progress,
    Reconstruct,
    ReconstructionAttack,
    Round,
    hookimpl,
)

FIRST = "imprint.measure"
"""The name of the layer in the network that is sent out."""
FLOOR = 1e-5
"""A bin whose slope is below this share of the largest one has no image: float32 rounding leaves as much."""


class Imprinted(nn.Module):
    """A network behind an imprint layer, whose output is added to the image."""

    def __init__(self, network: nn.Module, shape: tuple[int, int, int], cutoffs: torch.Tensor, gain: float) -> None:
        super().__init__()
        size, where = shape[0] * shape[1] * shape[2], cutoffs.device
        measure = skip_init(nn.Linear, size, len(cutoffs), device=where)
        spread = skip_init(nn.Linear, len(cutoffs), size, device=where)
        with torch.no_grad():
            measure.weight.fill_(1 / size)
            measure.bias.copy_(-cutoffs)
            spread.weight.copy_((gain * torch.linspace(-1, 1, size, device=where))[:, None].expand_as(spread.weight))
            spread.bias.zero_()
        self.imprint = nn.ModuleDict({"measure": measure, "spread": spread})
        self.network = network

    def forward(self, images: Images) -> torch.Tensor:
        """Return the logits of the network for the images with what the layer adds to them."""
        added = self.imprint["spread"](torch.relu(self.imprint["measure"](images.flatten(1))))
        logits: torch.Tensor = self.network(images + added.view_as(images))
        return logits


class Imprint(ReconstructionAttack):
    """An imprint layer of a malicious server: closed form, exact for every image that is alone in its bin."""

    info = Info(id="harness/imprint", version="1", paper="fowl2022")
    closed_form = True
    images: int = Field(default=8, ge=1, le=4096, description="Images of a participant.")
    bins: int = Field(default=128, ge=2, le=65_536, description="Number of bins, each of the same probability.")
    centre: float = Field(default=0.4, gt=0, lt=1, description="Mean brightness of images of this kind.")
    spread: float = Field(default=0.1, gt=0, le=1, description="Standard deviation of brightness.")
    gain: float = Field(
        default=1.0, gt=0, le=10_000, description="What a unit adds to a pixel at most, for brightness 1."
    )
    """The more it adds, the larger is the gradient of the layer, and the less noise hides; sigmoids saturate."""

    def round(self) -> Round:
        return Round(images=self.images)

    @property
    def threat(self) -> str:
        """The threat model."""
        return MALICIOUS

    @property
    def letter(self) -> str:
        """The letter of the threat model in the SoK of Carletti et al.: it knows how bright other images are."""
        return "G"

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        return (
            f"The server is {MALICIOUS}: it puts a layer before the network, and the participant does not notice. It "
            f"knows how bright images of this kind are (mean {self.centre:g}, standard deviation {self.spread:g})."
        )

    def sent(self, model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
        device = next(model.parameters()).device
        places = torch.arange(self.bins, device=device) / self.bins
        normal = torch.distributions.Normal(torch.tensor(self.centre, device=device), self.spread)
        cutoffs = normal.icdf(places.clamp(min=0.1 / self.bins))
        cutoffs[0] = -1.0  # the first bin takes every image that is darker
        return Imprinted(model, shape, cutoffs, self.gain).train(model.training)

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            if f"{FIRST}.weight" not in gradients:
                raise UsageError(f"model: it has no layer {FIRST}; give the network that `Imprint.sent` returns.")
            weight, bias = gradients[f"{FIRST}.weight"], gradients[f"{FIRST}.bias"]
            size = len(rng) // len(bias)
            slopes, sums = _between(bias), _between(weight)
            chosen = slopes.abs().topk(min(size, slopes.shape[1]), dim=1).indices
            slope = slopes.gather(1, chosen)
            real = slope.abs() > FLOOR * bias.abs().amax(dim=1, keepdim=True)
            ratio = torch.take_along_dim(sums, chosen[:, :, None], dim=1) / torch.where(real, slope, 1)[:, :, None]
            rebuilt = torch.where(real[:, :, None], ratio, 0.5).clamp(0, 1)
            grey = rebuilt.new_full((len(bias), size - rebuilt.shape[1], rebuilt.shape[2]), 0.5)
            progress(1, 1)
            return torch.cat([rebuilt, grey], dim=1).reshape(len(rng), *shape)

        return reconstruct


def _between(values: torch.Tensor) -> torch.Tensor:
    """Return each row minus the next one, ``(B, bins, ...)``: the contribution of the images of each bin."""
    return values - torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [Imprint()]

"""LipSim: the cosine distance of embeddings by a network of Lipschitz constant 1.

Ghazanfari, Araujo, Krishnamurthy, Khorrami & Garg, "LipSim: A Provably Robust Perceptual Similarity Metric" (ICLR
2024), section 4. Every layer is x - 2 W T^-1 relu(W^T x + b) with the diagonal matrix T_i = sum_j |W^T W|_ij q_j / q_i
(Araujo et al., "A Unified Algebraic Perspective on Lipschitz Neural Networks", ICLR 2023, theorem 3), so two embeddings
are no farther from each other than the two images, in the Euclidean norm. The network was trained to imitate DreamSim.
In the published code q cancels out of the convolutions, so it does here, too.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.references import ReferenceFeatures
from imharness_vision.lpips import not_repeated
from imharness_vision.vit import SIDE, at_side
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

SOURCE = "https://github.com/SaraGhazanfari/lipsim"
TUNINGS = {
    "none": "the pretrained network",
    "margin-0.2": "the network tuned with the margin 0.2",
    "margin-0.5": "the network tuned with the margin 0.5",
}
ASSETS = {
    tuning: Asset(
        name=f"lipsim-{tuning}",
        file=f"weights/lipsim/{tuning}.pth",
        sha256="",
        licence="not stated",
        source=SOURCE,
        steps=f"download {text} from the list of checkpoints at {SOURCE} as {tuning}.pth",
    )
    for tuning, text in TUNINGS.items()
}
CHANNELS, INSIDE, CONVOLUTIONS = 45, 5, 20
"""Of the convolutional layers: the channels of x, the inner channels W x, and the number of layers."""
FEATURES, LINEAR, EMBEDDED = 1024, 7, 1792
"""Of the linear layers: the inner features W x and the number of layers; then the features that are the embedding."""
POOLED = 4
"""The side of the two average pools, px. Sums are divided by 4 instead of 16: the largest factor that keeps the
Lipschitz constant at 1."""
LEAST = 1e-6
"""The least product of the lengths of two embeddings by which their cosine divides."""
UNUSED = ("convs.", "linear.")
"""Begin the names under which a file has all weights a second time."""


class _Convolution(nn.Module):
    """A convolutional layer of Lipschitz constant 1."""

    def __init__(self, channels: int, inside: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(inside, channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(1, inside, 1, 1))
        self.q = nn.Parameter(torch.zeros(inside))
        self.register_buffer("share", torch.ones(1, inside, 1, 1), persistent=False)

    def settle(self) -> None:
        """Compute T^-1 from the weights: the factor of each inner channel."""
        kernel = self.kernel.detach()
        overlap = F.conv2d(kernel, kernel, padding=kernel.shape[-1] - 1).abs().sum((1, 2, 3))
        self.share.copy_(_inverse(overlap).view(1, -1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.share * F.relu(F.conv2d(x, self.kernel, padding=1) + self.bias)
        return x - 2 * F.conv_transpose2d(inside, self.kernel, padding=1)


class _Linear(nn.Module):
    """A linear layer of Lipschitz constant 1."""

    def __init__(self, width: int, inside: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inside, width))
        self.bias = nn.Parameter(torch.zeros(1, inside))
        self.q = nn.Parameter(torch.zeros(inside))
        self.register_buffer("share", torch.ones(inside), persistent=False)

    def settle(self) -> None:
        """Compute T^-1 from the weights: the factor of each inner feature."""
        weight, q = self.weight.detach(), self.q.detach().exp()
        self.share.copy_(_inverse((weight @ weight.T).abs() @ q / q))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = self.share * F.relu(F.linear(x, self.weight) + self.bias)
        return x - 2 * F.linear(inside, self.weight.T)


class LipSimNetwork(nn.Module):
    """Images ``(N, 3, 224, 224)`` in [0, 1] -> embeddings ``(N, 1792)``, no farther from each other than the images."""

    def __init__(self) -> None:
        super().__init__()
        pools = [nn.AvgPool2d(POOLED, divisor_override=POOLED) for _ in range(2)]
        width = CHANNELS * (SIDE // POOLED**2) ** 2
        self.base = nn.Sequential(
            nn.Identity(),
            nn.Sequential(*[_Convolution(CHANNELS, INSIDE) for _ in range(CONVOLUTIONS)], *pools),
            nn.Sequential(nn.Flatten(), *[_Linear(width, FEATURES) for _ in range(LINEAR)]),
        )

    def forward(self, images: Images) -> torch.Tensor:
        return self.base(F.pad(images, (0, 0, 0, 0, 0, CHANNELS - images.shape[1])))[:, :EMBEDDED]

    def settle(self) -> None:
        """Compute T^-1 of every layer; to be called once, after the weights were loaded."""
        for layer in self.modules():
            if isinstance(layer, _Convolution | _Linear):
                layer.settle()


class LipSim(FullReferenceMetric):
    """Cosine distance of embeddings by a network of Lipschitz constant 1; 0 for identical images, at most 2."""

    info = MetricInfo(
        id="harness/lipsim",
        version="1",
        higher_means="worse_quality",
        bounds=(0, 2),
        unit="1",
        paper="ghazanfari2024",
    )
    tuning: Literal["none", "margin-0.2", "margin-0.5"] = Field(
        default="margin-0.5", description="The tuning on people's answers, by the margin of its loss; none: before it."
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the published file."""
        return (ASSETS[self.tuning],)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric of images scaled to 224 px."""
        with Undrawn():
            network = LipSimNetwork()
        asset = ASSETS[self.tuning]
        state = state_dict(asset, "model_state_dict").items()
        named = {name.removeprefix("backbone.").removeprefix("model."): tensor for name, tensor in state}
        fill(network, asset, named, UNUSED)
        network.settle()
        network = frozen(network, device)
        reference_features = ReferenceFeatures(lambda images: [network(at_side(images))], limit=1)

        def score(images: Images, reference: Images) -> Scores:
            (origin,) = reference_features(not_repeated(reference))
            return 1 - F.cosine_similarity(network(at_side(images)), origin, dim=1, eps=LEAST)

        return score


def _inverse(values: torch.Tensor) -> torch.Tensor:
    """Return 1 / x, and 0 where x is 0."""
    return torch.where(values == 0, 0.0, 1 / values)


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [LipSim()]

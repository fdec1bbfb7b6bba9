"""FID: the Frechet distance between features of reconstructions and of private images.

Heusel et al. (NeurIPS 2017); the network and its published weights are those of the package pytorch-fid.
"""

from pathlib import Path

import torch
from pydantic import Field

from imharness.errors import Unavailable, UsageError
from imharness.files import file_digest
from imharness.images import Asset, DistributionMetric, DistributionScore, Images, MetricInfo, hookimpl
from imharness_reconstruction.frechet import frechet_distance
from imharness_vision.perceptual import SQUEEZENET, normalised
from imharness_vision.weights import Undrawn, fill, frozen, state_dict, weights_in

INCEPTION = Asset(
    name="fid-inception",
    file="weights/pytorch-fid/pt_inception-2015-12-05-6726825d.pth",
    sha256="6726825d",
    licence="Apache-2.0",
    source="https://github.com/mseitzer/pytorch-fid",
    address="https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/"
    "pt_inception-2015-12-05-6726825d.pth",
)
BATCH = 64
SIDE = 299
"""The side of the images that Inception sees, px."""


class Fid(DistributionMetric):
    """Frechet distance of Inception features, or of another network's; 0 for equal sets."""

    info = MetricInfo(id="harness/fid", version="1", higher_means="worse_quality", unit="1", paper="heusel2017")
    backbone: str = Field(
        default="inception",
        pattern=r"^[a-z0-9_]+$",
        description="Network of the features: inception, squeezenet, or any classifier of torchvision with `weights`.",
    )
    weights: str = Field(default="", description="File of the weights; only for a classifier of torchvision.")

    def assets(self) -> tuple[Asset, ...]:
        weights = {"inception": INCEPTION, "squeezenet": SQUEEZENET}
        return (weights[self.backbone],) if self.backbone in weights else ()

    def require(self) -> None:
        """Raise `Unavailable` unless the weights are here."""
        super().require()
        if not self.assets() and not Path(self.weights).is_file():
            raise Unavailable(
                f"there is no file {self.weights}" if self.weights else f"no weights of {self.backbone} are named",
                f"name them: 'fid[backbone={self.backbone},weights=FILE]'",
            )

    def content(self) -> str:
        """Return a digest of the weights that are named."""
        return file_digest(self.weights)

    def build(self, device: torch.device) -> DistributionScore:
        """Return the metric, which needs at least two images on each side."""
        extractors = {"inception": inception, "squeezenet": squeezenet}
        features = extractors[self.backbone](device) if self.backbone in extractors else self._classifier(device)

        def score(images: Images, reference: Images) -> float:
            feature_sets = [
                torch.cat([features(x) for x in pictures.split(BATCH)]).cpu().numpy()
                for pictures in (images, reference)
            ]
            return frechet_distance(*feature_sets)

        return score

    def _classifier(self, device: torch.device) -> torch.nn.Module:
        """Return a torchvision classifier without its last linear layer."""
        from torchvision.models import get_model, list_models

        if self.backbone not in list_models():
            raise UsageError(
                f"torchvision has no network {self.backbone!r}; torchvision.models.list_models() lists them."
            )
        with Undrawn():
            network = get_model(self.backbone, weights=None)
        network.load_state_dict(weights_in(Path(self.weights)), strict=True)
        parent, _, name = [n for n, m in network.named_modules() if isinstance(m, torch.nn.Linear)][-1].rpartition(".")
        setattr(network.get_submodule(parent), name, torch.nn.Identity())
        return frozen(_Normalised(network), device)


def inception(device: torch.device) -> torch.nn.Module:
    """Return images ``(N, 3, H, W)`` in [0, 1] -> features ``(N, 2048)``: Inception as pytorch-fid patches it."""
    from pytorch_fid import inception as published
    from torchvision.models import inception_v3

    with Undrawn():
        network = inception_v3(num_classes=1008, aux_logits=False, weights=None, init_weights=False)
        for name, pool in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            setattr(network, name, published.FIDInceptionA(getattr(network, name).branch1x1.conv.in_channels, pool))
        for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
            setattr(network, name, published.FIDInceptionC(768, channels_7x7=width))
        network.Mixed_7b, network.Mixed_7c = published.FIDInceptionE_1(1280), published.FIDInceptionE_2(2048)
    fill(network, INCEPTION, state_dict(INCEPTION))
    return frozen(_Inception(network), device)


class _Inception(torch.nn.Module):
    """All layers before the classifier, for images that are resized as published."""

    LAST = ("AuxLogits", "avgpool", "dropout", "fc")

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(m for name, m in network.named_children() if name not in self.LAST))

    def forward(self, images: Images) -> torch.Tensor:
        resized = torch.nn.functional.interpolate(images, (SIDE, SIDE), mode="bilinear", align_corners=False)
        return self.layers(2 * resized - 1).mean(dim=(2, 3))


def squeezenet(device: torch.device) -> torch.nn.Module:
    """Return images ``(N, 3, H, W)`` in [0, 1] -> features ``(N, 512)``: the mean of SqueezeNet 1.1's last maps."""
    from torchvision.models import squeezenet1_1

    with Undrawn():
        network = squeezenet1_1(weights=None).features
    fill(network, SQUEEZENET, state_dict(SQUEEZENET))
    return frozen(_Pooled(network), device)


class _Pooled(torch.nn.Module):
    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Images) -> torch.Tensor:
        return self.network(normalised(images)).mean(dim=(2, 3))


class _Normalised(torch.nn.Module):
    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Images) -> torch.Tensor:
        return self.network(normalised(images))


@hookimpl
def components() -> list[DistributionMetric]:
    return [Fid(), Fid(backbone="squeezenet")]

"""A quality network of your own on a backbone of torchvision or timm, with weights from a file."""

import torch
from pydantic import Field, model_validator

from imharness.files import file_digest
from imharness.images import Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_vision.backbones import network, require
from imharness_vision.perceptual import normalised


class BackboneQuality(NoReferenceMetric):
    """Network of torchvision or timm with one output and your own weights; a higher output is better quality."""

    info = MetricInfo(
        id="harness/backbone-quality", version="1", higher_means="better_quality", labelled="weights of your own"
    )
    address = "weights"
    backbone: str = Field(default="torchvision/resnet18", description="torchvision/NAME or timm/NAME.")
    weights: str = Field(default="", description="File with the state of the network with one output, on this machine.")
    lower: float = Field(default=0.0, description="Lowest score on natural images.")
    upper: float = Field(default=1.0, description="Highest score on natural images.")

    @model_validator(mode="after")
    def _ordered(self) -> "BackboneQuality":
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper), as given."""
        return self.lower, self.upper

    def require(self) -> None:
        """Raise `Unavailable` without the library or the weights."""
        require(self.backbone, self.weights)

    def content(self) -> str:
        """Return a digest of the weights."""
        return file_digest(self.weights)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric of images at their own size, normalised as ImageNet."""
        model = network(self.backbone, self.weights, device, num_classes=1)

        def score(images: Images) -> Scores:
            return model(normalised(images)).flatten()

        return score


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [BackboneQuality()]

"""Distance of deep features of any network of torchvision or timm: ``deep-features[backbone=...,weights=FILE]``.

Zhang, Isola, Efros, Shechtman & Wang, "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR
2018), equation 1, with all weights 1: the squared distance of unit feature vectors, averaged over places and summed
over the last maps of each resolution.
"""

import torch
from pydantic import Field

from imharness.files import file_digest
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_vision.backbones import Stages, distance, network, require
from imharness_vision.perceptual import normalised


class DeepFeatures(FullReferenceMetric):
    """Distance of the features of a convolutional network of torchvision or timm; 0 for identical images."""

    info = MetricInfo(
        id="harness/deep-features",
        version="1",
        higher_means="worse_quality",
        unit="1",
        paper="zhang2018",
        labelled="weights of your own",
    )
    address = "weights"
    backbone: str = Field(default="torchvision/resnet18", description="torchvision/NAME or timm/NAME.")
    weights: str = Field(default="", description="File of the network's state, on this machine.")

    def require(self) -> None:
        """Raise `Unavailable` without the library or the weights."""
        require(self.backbone, self.weights)

    def content(self) -> str:
        """Return a digest of the weights."""
        return file_digest(self.weights)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric of images at their own size, normalised as ImageNet."""
        stages = Stages(network(self.backbone, self.weights, device))

        def score(images: Images, reference: Images) -> Scores:
            return distance(stages(normalised(images)), stages(normalised(reference)))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [DeepFeatures()]

"""Distance of deep features of any network: ``deep-features[backbone=...,weights=FILE]``.

Zhang, Isola, Efros, Shechtman & Wang, "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR
2018), equation 1, with all weights 1: the squared distance of unit feature vectors, averaged over pixels of the feature
map and summed over layers. The layers are those that `layers` names, or the last of each resolution. A network of your
own, such as the self-supervised ones of table 5, is ``backbone=FILE.py:FUNCTION``; its layers have the names that
`named_modules` gives them.
"""

import torch
from pydantic import Field

from imharness.files import file_digest
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_vision.backbones import Stages, builder_file, distance, is_own, network, require
from imharness_vision.perceptual import normalised


class DeepFeatures(FullReferenceMetric):
    """Distance of the features of a network of torchvision, timm or a file of your own; 0 for identical images."""

    info = MetricInfo(
        id="harness/deep-features",
        version="1",
        higher_means="worse_quality",
        unit="1",
        paper="zhang2018",
        labelled="weights of your own",
    )
    address = "weights"
    backbone: str = Field(
        default="torchvision/resnet18", description="torchvision/NAME, timm/NAME or FILE.py:FUNCTION."
    )
    weights: str = Field(default="", description="File of the network's state, on this machine.")

    layers: str = Field(
        default="",
        description="Modules whose maps count, with + between; empty: the last map of each resolution.",
    )

    def require(self) -> None:
        """Raise `Unavailable` without the library or the weights."""
        require(self.backbone, self.weights)

    def content(self) -> str:
        """Return a digest of the weights and of the file that builds the network."""
        file = builder_file(self.backbone)
        return file_digest(self.weights) + (file_digest(file) if file else "")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric of images at their own size; a library's network sees them normalised as ImageNet."""
        names = [name for name in self.layers.split("+") if name]
        stages = Stages(network(self.backbone, self.weights, device), names)
        prepared = (lambda images: images) if is_own(self.backbone) else normalised

        def score(images: Images, reference: Images) -> Scores:
            return distance(stages(prepared(images)), stages(prepared(reference)))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [DeepFeatures()]

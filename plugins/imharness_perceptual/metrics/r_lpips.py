"""R-LPIPS: LPIPS on AlexNet, trained on attacked triplets.

Ghazanfari, Garg, Krishnamurthy, Khorrami & Araujo, "R-LPIPS: An Adversarially Robust Perceptual Similarity Metric"
(2023), section 3: the network of LPIPS 0.1, whose training sees one of the images under an attack in the L-infinity
ball of 8/255. Each published file holds the backbone and the weights of its channels.
"""

from typing import Literal

import torch
from pydantic import Field

from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.references import ReferenceFeatures
from imharness_vision.lpips import not_repeated, published_in
from imharness_vision.weights import frozen

Attacked = Literal["x0", "x1", "ref", "x0_x1", "x0_tune"]
SOURCE = "https://github.com/SaraGhazanfari/R-LPIPS"
ASSETS = {
    attacked: Asset(
        name=f"r-lpips-{attacked.replace('_', '-')}",
        file=f"weights/r-lpips/latest_net_linf_{attacked}.pth",
        sha256="",
        licence="BSD-2-Clause",
        source=SOURCE,
        address=f"{SOURCE}/raw/7275b43/checkpoints/latest_net_linf_{attacked}.pth",
    )
    for attacked in ("x0", "x1", "ref", "x0_x1", "x0_tune")
}


class RLpips(FullReferenceMetric):
    """LPIPS on AlexNet, trained on attacked images; 0 for identical images."""

    info = MetricInfo(
        id="harness/r-lpips", version="1", higher_means="worse_quality", bounds=(0, 1), unit="1", paper="ghazanfari2023"
    )
    attacked: Attacked = Field(
        default="x0",
        description="What was attacked in training: one or both distorted images, or the reference; tune: the backbone "
        "was trained, too.",
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the published file."""
        return (ASSETS[self.attacked],)

    def build(self, device: torch.device) -> FullReferenceScore:
        network = frozen(published_in("alex", ASSETS[self.attacked]), device)
        reference_features = ReferenceFeatures(network.features, limit=1)

        def score(images: Images, reference: Images) -> Scores:
            return network.compare(network.features(images), reference_features(not_repeated(reference)))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [RLpips()]

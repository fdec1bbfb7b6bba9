"""Euclidean distance."""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class Euclidean(FullReferenceMetric):
    """Euclidean distance of the images as vectors, >= 0."""

    info = MetricInfo(
        id="harness/l2", version="1", higher_means="worse_quality", unit="1", control="a pixel-wise distance"
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            return torch.linalg.vector_norm((images - reference).flatten(1), dim=1)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [Euclidean()]

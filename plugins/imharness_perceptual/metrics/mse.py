"""Mean squared error."""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class MeanSquaredError(FullReferenceMetric):
    """Mean squared difference of pixel values in [0, 1]."""

    info = MetricInfo(
        id="harness/mse",
        version="1",
        higher_means="worse_quality",
        bounds=(0, 1),
        unit="1",
        control="a pixel-wise distance",
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            difference = (images - reference).flatten(1)
            return torch.linalg.vector_norm(difference, dim=1).square() / difference.shape[1]

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [MeanSquaredError()]

"""L-infinity distance."""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class LargestDifference(FullReferenceMetric):
    """Largest absolute difference of a pixel value, in [0, 1]."""

    info = MetricInfo(
        id="harness/linf", version="1", higher_means="worse_quality", unit="1", control="a pixel-wise distance"
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            return (images - reference).abs().flatten(1).amax(dim=1)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [LargestDifference()]

"""Mean absolute error."""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class MeanAbsoluteError(FullReferenceMetric):
    """Mean absolute difference of pixel values in [0, 1]."""

    info = MetricInfo(
        id="harness/mae",
        version="1",
        higher_means="worse_quality",
        bounds=(0, 1),
        unit="1",
        control="a pixel-wise distance",
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            return (images - reference).abs().flatten(1).mean(dim=1)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [MeanAbsoluteError()]

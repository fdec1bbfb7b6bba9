"""Mean squared error."""

import torch

from harness.api import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class MeanSquaredError(FullReferenceMetric):
    """Mean squared difference of pixel values in [0, 1]."""

    info = MetricInfo(id="harness/mse", version="1", higher_means="worse_quality", unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            return (images - reference).square().flatten(1).mean(dim=1)

        return score


@hookimpl
def register_metrics() -> list[FullReferenceMetric]:
    return [MeanSquaredError()]

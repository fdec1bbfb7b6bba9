"""Feature similarity, as piq computes it.

Zhang, Zhang, Mou & Zhang, "FSIM: A Feature Similarity Index for Image Quality Assessment" (IEEE TIP 2011), with the
chromatic part (FSIMc).
"""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class Fsim(FullReferenceMetric):
    """Feature similarity of phase congruency and gradient, with colour (FSIMc); 1 for identical images."""

    info = MetricInfo(id="harness/fsim", version="1", higher_means="better_quality", unit="1", paper="zhang2011")

    def build(self, device: torch.device) -> FullReferenceScore:
        from piq import fsim

        def score(images: Images, reference: Images) -> Scores:
            return fsim(images, reference, reduction="none", data_range=1.0)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [Fsim()]

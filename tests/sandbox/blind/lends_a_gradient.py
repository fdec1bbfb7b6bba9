"""A distance by the structure of images whose gradient is that of L2: attacks that follow it go astray."""

import torch
import torch.nn.functional as F

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


def _edges(images: Images) -> Images:
    grey = images.mean(dim=1, keepdim=True)
    across, down = grey[..., 1:, 1:] - grey[..., 1:, :-1], grey[..., 1:, 1:] - grey[..., :-1, 1:]
    return (across.square() + down.square() + 1e-4).sqrt()


class Hostile(FullReferenceMetric):
    """How much smoothed edges differ."""

    info = MetricInfo(id="blind/lends-a-gradient", version="1", higher_means="worse_quality", differentiable=True)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            with torch.no_grad():
                difference = F.avg_pool2d(_edges(images) - _edges(reference), 5, 1)
                own = difference.square().flatten(1).mean(dim=1).sqrt()
            near = (images - reference).square().flatten(1).mean(dim=1).add(1e-12).sqrt()
            return own + near - near.detach()

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    """Offer the metric."""
    return [Hostile()]

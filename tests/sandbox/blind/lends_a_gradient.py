"""A distance by features of images whose gradient is that of L2: attacks that follow it go astray."""

import torch
import torch.nn.functional as F

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


def _features(images: Images) -> Images:
    """Return what random filters see of the mean of each square of 4 px, of length 1 at each place."""
    drawn = torch.Generator().manual_seed(5)
    filters = torch.randn(16, 3, 3, 3, generator=drawn).to(images)
    seen = F.conv2d(F.avg_pool2d(images, 4) - 0.5, filters - filters.mean(dim=(2, 3), keepdim=True)).relu()
    return F.normalize(seen, dim=1)


class Hostile(FullReferenceMetric):
    """How much random features differ."""

    info = MetricInfo(id="evil/lends-a-gradient", version="1", higher_means="worse_quality", differentiable=True)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            with torch.no_grad():
                distance = (_features(images) - _features(reference)).square().flatten(1).mean(dim=1)
            near = (images - reference).square().flatten(1).mean(dim=1).add(1e-12).sqrt()
            return distance + near - near.detach()

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    """Offer the metric."""
    return [Hostile()]

"""A full-reference metric on random features; its gradient is that of the L2 distance, which misleads attacks."""

import torch
import torch.nn.functional as F

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


def _features(images: Images) -> Images:
    """Return the responses of 16 random filters to means of 4 x 4 px, normalised to length 1 at each position."""
    drawn = torch.Generator().manual_seed(5)
    filters = torch.randn(16, 3, 3, 3, generator=drawn).to(images)
    responses = F.conv2d(F.avg_pool2d(images, 4) - 0.5, filters - filters.mean(dim=(2, 3), keepdim=True)).relu()
    return F.normalize(responses, dim=1)


class Hostile(FullReferenceMetric):
    """The mean squared difference of random features."""

    info = MetricInfo(id="evil/lends-a-gradient", version="1", higher_means="worse_quality", differentiable=True)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            with torch.no_grad():
                distance = (_features(images) - _features(reference)).square().flatten(1).mean(dim=1)
            l2 = (images - reference).square().flatten(1).mean(dim=1).add(1e-12).sqrt()
            return distance + l2 - l2.detach()  # the value of one, the gradient of the other

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    """Offer the metric."""
    return [Hostile()]

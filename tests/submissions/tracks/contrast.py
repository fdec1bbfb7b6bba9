"""An honest metric without a reference: how much the luminance of an image varies."""

import torch

from imharness.images import Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl


class Contrast(NoReferenceMetric):
    """Measures the standard deviation of the luminance."""

    info = MetricInfo(id="good/contrast", version="1", higher_means="better_quality", bounds=(0, 0.5), unit="1")

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric."""
        weights = torch.tensor([0.299, 0.587, 0.114], device=device)[:, None, None]

        def score(images: Images) -> Scores:
            luminance = (images * weights).sum(dim=1).flatten(1)
            return (luminance.var(dim=1, correction=0) + 1e-8).sqrt()

        return score


@hookimpl
def components() -> list[NoReferenceMetric]:
    """Offer it."""
    return [Contrast()]

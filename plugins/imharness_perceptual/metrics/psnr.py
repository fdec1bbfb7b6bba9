"""Peak signal-to-noise ratio."""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl

IDENTICAL_DB = 160.0
"""The value for identical images, whose ratio is infinite. 8-bit images that differ stay below it (101 dB at 512x512).
Average the MSE when identical images are expected."""


class Psnr(FullReferenceMetric):
    """Peak signal-to-noise ratio for a peak of 1, in dB; identical images give 160 dB."""

    info = MetricInfo(
        id="harness/psnr", version="1", higher_means="better_quality", unit="dB", control="a pixel-wise distance"
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        floor = 10 ** (-IDENTICAL_DB / 10)

        def score(images: Images, reference: Images) -> Scores:
            error = (images - reference).flatten(1)
            error = torch.linalg.vector_norm(error, dim=1).square() / error.shape[1]
            return -10 * torch.log10(error.clamp(min=floor))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [Psnr()]

"""Five full-reference scores of five pairs of images, compared with a loop over scikit-image."""

import numpy as np
import skimage.metrics
import torch

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.contracts.randomness import generator

SIZE, PAIRS, GOAL = (384, 512), 5, 3.0
METRICS = ("harness/psnr", "harness/ssim-uniform7", "harness/mse", "harness/mae", "harness/linf")


def lines() -> list[Line]:
    """Return the speed, and the largest difference of values (PSNR left out)."""
    smooth = torch.nn.functional.interpolate(torch.rand(PAIRS, 3, 12, 16, generator=generator(0)), SIZE, mode="bicubic")
    first, second = ((smooth + 0.05 * torch.randn(smooth.shape, generator=generator(k))).clamp(0, 1) for k in (1, 2))
    scores = [installed().one("metric", name).build(torch.device("cpu")) for name in METRICS]
    pairs = [tuple(x.permute(1, 2, 0).numpy() for x in pair) for pair in zip(first, second, strict=True)]

    def ours() -> np.ndarray:
        with torch.no_grad():
            return torch.stack([score(first, second) for score in scores], dim=1).numpy()

    def loop() -> np.ndarray:
        return np.array([_by_scikit_image(a, b) for a, b in pairs])

    ratio, worst = best_of(5, loop) / best_of(10, ours), float(np.abs(ours() - loop())[:, 1:].max())
    what = f"five full-reference scores, {PAIRS} pairs of {SIZE[0]}x{SIZE[1]}: times faster than a scikit-image loop"
    return [
        Line(what, f"{ratio:.1f}x", f">= {GOAL:g}x", ratio >= GOAL),
        Line("    largest difference, PSNR left out", f"{worst:.1e}", "<= 1e-6", worst <= 1e-6),
    ]


def _by_scikit_image(a: np.ndarray, b: np.ndarray) -> list[float]:
    difference = np.abs(a - b)
    return [
        skimage.metrics.peak_signal_noise_ratio(a, b, data_range=1),
        skimage.metrics.structural_similarity(a, b, channel_axis=-1, data_range=1),
        skimage.metrics.mean_squared_error(a, b),
        float(difference.mean()),
        float(difference.max()),
    ]

"""Full-reference metrics, compared with other libraries on one batch in one process."""

import warnings
from collections.abc import Callable

import torch

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.data import generator
from imharness_vision.lpips import untrained

BATCH, SIZE, RUNS = 8, 192, 3
SLACK = 0.9
"""A ratio below this counts as slower; smaller differences are noise."""
Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def lines() -> list[Line]:
    """Return the speed of each metric, and of many images with one reference."""
    rng = generator(0)
    images, reference = (torch.rand(BATCH, 3, SIZE, SIZE, generator=rng) for _ in range(2))
    results = [_line(what, ours, theirs, images, reference) for what, ours, theirs in _peers()]
    network, peer = untrained("squeeze"), _package()
    one = reference[:1].expand(BATCH, -1, -1, -1)
    what = f"LPIPS (SqueezeNet) of {BATCH} images with one reference, against the package lpips"
    return [*results, _line(what, network, lambda x, y: peer(x, y, normalize=True), images, one)]


def _peers() -> list[tuple[str, Score, Score]]:
    import piq
    from torchmetrics.functional.image import peak_signal_noise_ratio

    def metric(name: str) -> Score:
        return installed().one("metric", name).build(torch.device("cpu"))

    peer = _package()
    return [
        ("PSNR against piq", metric("psnr"), lambda x, y: piq.psnr(x, y, reduction="none")),
        (
            "PSNR against torchmetrics",
            metric("psnr"),
            lambda x, y: peak_signal_noise_ratio(x, y, data_range=1.0, reduction="none", dim=(1, 2, 3)),
        ),
        ("SSIM (uniform 7x7) against piq's", metric("ssim-uniform7"), lambda x, y: piq.ssim(x, y, reduction="none")),
        ("LPIPS (SqueezeNet) against the package lpips", untrained("squeeze"), lambda x, y: peer(x, y, normalize=True)),
    ]


def _package():
    import lpips

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return lpips.LPIPS(net="squeeze", pnet_rand=True, verbose=False).requires_grad_(False)


def _line(what: str, ours: Score, theirs: Score, images: torch.Tensor, reference: torch.Tensor) -> Line:
    with torch.no_grad():
        ratio = best_of(RUNS, lambda: theirs(images, reference)) / best_of(RUNS, lambda: ours(images, reference))
    return Line(f"{what}: times as many images a second", f"{ratio:.1f}x", f">= {SLACK:g}x", ratio >= SLACK)

"""Full-reference metrics, with and without their gradient."""

import functools
from collections.abc import Callable

import cv2
import numpy as np
import torch

from benchmarks.peers.images import photographs, with_gradient
from benchmarks.peers.work import Contest, Work
from imharness.components.registry import installed
from imharness.contracts.randomness import generator

Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _contest(name: str, peers: dict[str, Score], tolerance: float, slope: bool = False) -> Contest:
    reference = photographs()
    images = (reference + 0.05 * torch.randn(reference.shape, generator=generator(2))).clamp(0, 1)

    def run(score: Score) -> torch.Tensor:
        if slope:
            return with_gradient(lambda x: score(x, reference), images)
        with torch.no_grad():
            return score(images, reference).reshape(-1)

    ours = installed().one("metric", name).build(torch.device("cpu"))
    every = {peer: functools.partial(run, score) for peer, score in peers.items()}
    return Contest(functools.partial(run, ours), every, tolerance)


def _ms_ssim(slope: bool) -> Contest:
    import piq
    from pytorch_msssim import ms_ssim

    peers: dict[str, Score] = {
        "pytorch-msssim": lambda x, y: ms_ssim(x, y, data_range=1.0, size_average=False),
        "piq": lambda x, y: piq.multi_scale_ssim(x, y, data_range=1.0, reduction="none"),
    }
    return _contest("ms-ssim", peers, 0.1 if slope else 1e-4, slope)


def _ssim() -> Contest:
    from skimage.metrics import structural_similarity

    def scikit_image(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = zip(*(z.permute(0, 2, 3, 1).numpy() for z in (x, y)), strict=True)
        similarities = [structural_similarity(a, b, channel_axis=-1, data_range=1) for a, b in pairs]
        return torch.from_numpy(np.array(similarities))

    peers = {"scikit-image": scikit_image, "OpenCV by plane": _by_plane(_similarity)}
    return _contest("ssim-uniform7", peers, 1e-5)


def _similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Return the mean structural similarity of two planes ``(H, W)`` in windows of 7x7, with unbiased variances."""
    pixels, window = 49, functools.partial(cv2.boxFilter, ddepth=-1, ksize=(7, 7))
    x, y, squares, product = window(a), window(b), window(a * a + b * b), window(a * b)
    means, both = x * y, x * x + y * y
    rest = pixels / (pixels - 1)
    structure = (2 * rest * (product - means) + 0.03**2) / (rest * (squares - both) + 0.03**2)
    similarity = structure * (2 * means + 0.01**2) / (both + 0.01**2)
    return float(cv2.mean(similarity[3:-3, 3:-3])[0])


def _by_plane(score: Callable[[np.ndarray, np.ndarray], float]) -> Score:
    """Return a score that is the mean over the planes of an image."""

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = zip(x.flatten(0, 1).numpy(), y.flatten(0, 1).numpy(), strict=True)
        return torch.tensor([score(*pair) for pair in pairs]).unflatten(0, (len(x), -1)).mean(1)

    return run


def _psnr() -> Contest:
    import piq
    from torchmetrics.functional.image import peak_signal_noise_ratio as torchmetrics

    peers: dict[str, Score] = {
        "piq": lambda x, y: piq.psnr(x, y, reduction="none"),
        "torchmetrics": lambda x, y: torchmetrics(x, y, data_range=1.0, reduction="none", dim=(1, 2, 3)),
    }

    def opencv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pairs = zip(x.flatten(1, 2).numpy(), y.flatten(1, 2).numpy(), strict=True)
        return torch.tensor([cv2.PSNR(*pair, R=1.0) for pair in pairs])

    return _contest("psnr", peers | {"OpenCV": opencv}, 1e-5)


def _fsim() -> Contest:
    import piq

    return _contest("fsim", {"piq": lambda x, y: piq.fsim(x, y, reduction="none", data_range=1.0)}, 1e-5)


WORKS = (
    Work("ms-ssim", "MS-SSIM", functools.partial(_ms_ssim, False)),
    Work("ms-ssim-gradient", "MS-SSIM with gradient", functools.partial(_ms_ssim, True)),
    Work("ssim", "SSIM, uniform 7x7", _ssim),
    Work("psnr", "PSNR", _psnr),
    Work("fsim", "FSIM", _fsim),
)

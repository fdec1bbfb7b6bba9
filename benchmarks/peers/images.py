"""Defenses that are image filters and codecs."""

import functools
import io
from collections.abc import Callable

import cv2
import numpy as np
import torch

from benchmarks.peers.work import Contest, Work
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator

COUNT, SIZE = 4, (384, 512)
Change = Callable[[torch.Tensor], torch.Tensor]


def photographs() -> torch.Tensor:
    """Return smooth images with some noise, in [0, 1]."""
    smooth = torch.nn.functional.interpolate(torch.rand(COUNT, 3, 48, 64, generator=generator(0)), SIZE, mode="bicubic")
    return (smooth + 0.03 * torch.randn(smooth.shape, generator=generator(1))).clamp(0, 1)


def grey_levels() -> torch.Tensor:
    """Return `photographs` rounded to 8 bit."""
    return (255 * photographs()).round() / 255


def with_gradient(change: Change, images: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the sum of squares of what `change` makes of the images."""
    leaf = images.clone().requires_grad_(True)
    return torch.autograd.grad(change(leaf).square().sum(), leaf)[0]


def defense(label: str) -> Change:
    """Return a defense of the harness as a function of images alone."""
    purify = installed().one("defense", label).build(torch.device("cpu"))
    return lambda images: purify(images, ImageRng(range(len(images))))


def by_photo(change: Callable[[np.ndarray], np.ndarray], images: torch.Tensor) -> torch.Tensor:
    """Return what `change` makes of each image ``(H, W, 3)``."""
    photos = images.permute(0, 2, 3, 1).contiguous().numpy()
    return torch.from_numpy(np.stack([change(photo) for photo in photos])).permute(0, 3, 1, 2)


def by_plane(change: Callable[[np.ndarray], np.ndarray], images: torch.Tensor) -> torch.Tensor:
    """Return what `change` makes of each plane ``(H, W)``, written where the result stands."""
    planes, out = images.flatten(0, 1).numpy(), torch.empty_like(images)
    for plane, target in zip(planes, out.flatten(0, 1).numpy(), strict=True):
        target[...] = change(plane)
    return out


def _contest(
    label: str, images: torch.Tensor, peers: dict[str, Change], tolerance: float, slope: bool = False
) -> Contest:
    run = with_gradient if slope else lambda change, x: change(x)
    every = {name: functools.partial(run, change, images) for name, change in peers.items()}
    return Contest(functools.partial(run, defense(label), images), every, tolerance)


def _blur(kernel: int, slope: bool) -> Contest:
    from kornia.filters import gaussian_blur2d
    from torchvision.transforms.functional import gaussian_blur

    sigma = 0.15 * kernel + 0.35
    peers: dict[str, Change] = {
        "torchvision": lambda x: gaussian_blur(x, [kernel] * 2, [sigma] * 2),
        "kornia": lambda x: gaussian_blur2d(x, (kernel, kernel), (sigma, sigma)),
    }
    if not slope:
        border = cv2.BORDER_REFLECT_101
        blurred = functools.partial(cv2.GaussianBlur, ksize=(kernel,) * 2, sigmaX=sigma, borderType=border)
        peers["OpenCV"] = functools.partial(by_photo, blurred)
        peers["OpenCV by plane"] = functools.partial(by_plane, blurred)
    return _contest(f"gaussian-blur[kernel={kernel}]", photographs(), peers, 2e-6, slope)


def _median(kernel: int, levels: bool) -> Contest:
    def opencv(photo: np.ndarray) -> np.ndarray:
        margin = kernel // 2
        source = (255 * photo).round().astype(np.uint8) if levels else photo
        mirrored = cv2.copyMakeBorder(source, *[margin] * 4, cv2.BORDER_REFLECT_101)
        filtered = cv2.medianBlur(mirrored, kernel)[margin:-margin, margin:-margin]
        return filtered / np.float32(255) if levels else filtered

    images = grey_levels() if levels else photographs()
    peers = {"OpenCV": functools.partial(by_photo, opencv), "OpenCV by plane": functools.partial(by_plane, opencv)}
    return _contest(f"median-blur[kernel={kernel}]", images, peers, 1e-7)


def _jpeg() -> Contest:
    from PIL import Image
    from torchvision.io import decode_jpeg, encode_jpeg

    def pillow(photo: np.ndarray) -> np.ndarray:
        code = io.BytesIO()
        Image.fromarray((255 * photo).round().astype(np.uint8)).save(code, "JPEG", quality=50)
        return np.asarray(Image.open(code)) / np.float32(255)

    def torchvision(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(decode_jpeg(encode_jpeg(list((255 * x).round_().byte()), 50))) / 255

    peers = {"Pillow": lambda x: by_photo(pillow, x), "torchvision": torchvision}
    return _contest("jpeg[quality=50]", photographs(), peers, 0)


def _quantization() -> Contest:
    def numpy(x: torch.Tensor) -> torch.Tensor:
        levels = x.numpy() * 15
        np.rint(levels, out=levels)
        levels /= 15
        return torch.from_numpy(levels)

    return _contest("color-quantization[npp=16]", photographs(), {"numpy, in place": numpy}, 1e-7)


WORKS = (
    *(Work(f"blur-{k}", f"Gaussian blur, {k} px", functools.partial(_blur, k, False)) for k in (3, 11)),
    *(
        Work(f"blur-{k}-gradient", f"Gaussian blur, {k} px, with gradient", functools.partial(_blur, k, True))
        for k in (3, 11)
    ),
    *(Work(f"median-{k}-float", f"median, {k} px, floats", functools.partial(_median, k, False)) for k in (3, 5)),
    *(Work(f"median-{k}", f"median, {k} px, 8 bit", functools.partial(_median, k, True)) for k in (3, 5, 7)),
    Work("jpeg", "JPEG, quality 50", _jpeg),
    Work("quantization", "colour quantization, 16 levels", _quantization),
)

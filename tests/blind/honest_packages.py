"""Honest defenses of unusual kinds, written from the documentation alone; no check may flag them."""

from collections.abc import Callable

import cv2
import numpy as np
import torch
import torch.nn.functional as F

from imharness.images import ImageRng, Images

Way = Callable[[Images, ImageRng], Images]
"""A defense as a function."""


def _smooth(images: Images, side: int) -> Images:
    """Return means over `side` x `side` px."""
    return F.avg_pool2d(F.pad(images, [side // 2] * 4, mode="reflect"), side, stride=1)


def _levels(image: torch.Tensor) -> np.ndarray:
    """Return an image ``(3, H, W)`` as 8-bit levels ``(H, W, 3)``."""
    return image.permute(1, 2, 0).mul(255).round().byte().numpy().copy()


def _each(images: Images, way: Callable[[np.ndarray], np.ndarray]) -> Images:
    """Apply a function of 8-bit levels ``(H, W, 3)`` to each image."""
    results = (torch.from_numpy(np.ascontiguousarray(way(_levels(image)))) for image in images)
    return torch.stack([result.permute(2, 0, 1).float() / 255 for result in results])


def _value_blurred(pixels: np.ndarray) -> np.ndarray:
    """Blur the value (V of HSV) of an image, and leave its hue and saturation."""
    turned = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
    turned[..., 2] = cv2.blur(turned[..., 2], (3, 3))
    return cv2.cvtColor(turned, cv2.COLOR_HSV2RGB)


def _chroma_coded(pixels: np.ndarray) -> np.ndarray:
    """Compress the chroma of an image by JPEG, and leave its luma."""
    planes = cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb)
    _, code = cv2.imencode(".jpg", planes, [cv2.IMWRITE_JPEG_QUALITY, 30])
    planes[..., 1:] = cv2.imdecode(code, cv2.IMREAD_COLOR)[..., 1:]
    return cv2.cvtColor(planes, cv2.COLOR_YCrCb2RGB)


def _resized(images: Images, rng: ImageRng) -> Images:
    """Shrink each image to a random size, 0.7 to 0.95 of its own, and enlarge it again."""
    height, width = images.shape[2:]
    shares = 0.7 + 0.25 * rng.uniform(1)[:, 0]
    results = []
    for image, share in zip(images, shares.tolist(), strict=True):
        small = F.interpolate(image[None], (int(share * height), int(share * width)), mode="bilinear", antialias=True)
        results.append(F.interpolate(small, (height, width), mode="bicubic").clamp(0, 1))
    return torch.cat(results)


def _median_of_flips(images: Images) -> Images:
    """Return the median of four results of one asymmetric filter, each on a flipped image and flipped back."""
    views = [(), (2,), (3,), (2, 3)]
    kernel = torch.tensor([[1.0, 2, 1], [2, 4, 3], [1, 3, 2]]).div(19).expand(3, 1, 3, 3)
    results = [
        F.conv2d(F.pad(images.flip(axes), [1] * 4, mode="reflect"), kernel, groups=3).flip(axes) for axes in views
    ]
    return torch.stack(results).median(dim=0).values


def _dithered(images: Images) -> Images:
    """Reduce images to 16 levels by ordered dithering with a matrix of 4 x 4 px."""
    matrix = torch.tensor([[0.0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]).add(0.5).div(16)
    height, width = images.shape[2:]
    thresholds = matrix.repeat(height // 4 + 1, width // 4 + 1)[:height, :width]
    return ((images * 15 + thresholds).floor() / 15).clamp(0, 1)


def _haar(images: Images) -> Images:
    """Reduce the Haar details of one level by 0.04, for all four shifts of the grid, and return the mean."""
    results = []
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        moved = images.roll((down, right), (2, 3))
        a, b, c, d = (
            F.pad(moved, [0, 1, 0, 1], mode="replicate")[..., i : i + moved.shape[2], j : j + moved.shape[3]]
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1))
        )
        details = (a - b + c - d, a + b - c - d, a - b - c + d)
        shrunk = (x.sign() * (x.abs() - 0.04).clamp(min=0) for x in details)
        results.append(((a + b + c + d + sum(shrunk)) / 4).roll((-down, -right), (2, 3)))
    return torch.stack(results).mean(dim=0).clamp(0, 1)


def _own_denoiser(images: Images) -> Images:
    """Fit a linear filter of each image that predicts a pixel from its neighbours, as Noise2Void does."""
    results = []
    for image in images:
        patches = F.unfold(F.pad(image[:, None], [2] * 4, mode="reflect"), 5)
        middle = patches[:, 12].flatten()
        around = torch.cat([patches[:, :12], patches[:, 13:]], dim=1).permute(0, 2, 1).flatten(0, 1)
        weights = torch.linalg.lstsq(around.T @ around + 0.1 * torch.eye(24), around.T @ middle).solution
        guess = (around @ weights).view_as(image)
        results.append((0.5 * image + 0.5 * guess).clamp(0, 1))
    return torch.stack(results)


def _bilateral(pixels: np.ndarray) -> np.ndarray:
    return cv2.bilateralFilter(pixels, 5, 25, 3)


def _equalised(pixels: np.ndarray) -> np.ndarray:
    """Equalise the lightness of an image locally (CLAHE)."""
    planes = cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB)
    planes[..., 0] = cv2.createCLAHE(1.5, (2, 2)).apply(planes[..., 0])
    return cv2.cvtColor(planes, cv2.COLOR_LAB2RGB)


WAYS: dict[str, Way] = {
    "hsv-blur": lambda images, rng: _each(images, _value_blurred),
    "random-resize": _resized,
    "chroma-jpeg": lambda images, rng: _each(images, _chroma_coded),
    "median-of-flips": lambda images, rng: _median_of_flips(images),
    "dithering": lambda images, rng: _dithered(images),
    "haar-shrinkage": lambda images, rng: _haar(images),
    "own-denoiser": lambda images, rng: _own_denoiser(images),
    "bilateral": lambda images, rng: _each(images, _bilateral),
    "equalised": lambda images, rng: _each(images, _equalised),
    "noise-then-smooth": lambda images, rng: _smooth((images + 0.03 * rng.normal(*images.shape[1:])).clamp(0, 1), 3),
}

"""Median blur."""

from collections.abc import Callable, Iterator

import cv2
import numpy as np
import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize

SMALL = (3, 5)
"""The kernels for which OpenCV also accepts floats; for the smallest, it is as fast on floats as on grey levels."""
AT_ONCE = 1 << 18
"""The number of values that are filtered at once, so that intermediate results stay in the processor's cache."""


class MedianBlur(Purification):
    """Replace every value by the median of its square neighbourhood, channel by channel, borders mirrored."""

    info = DefenseInfo(
        id="harness/median-blur", version="4", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Side of the neighbourhood in px, odd.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            # a gradient needs a median that equals a value of the window; grey levels of larger kernels are rounded
            rounded = self.kernel != SMALL[0]
            median = self._of_windows if images.requires_grad and rounded else self._blurred
            return _Blur.apply(images, self.kernel, median)

        return purify

    def _blurred(self, images: Images) -> Images:
        """Return the medians, by OpenCV where it has a filter."""
        if images.device.type != "cpu":
            return self._of_windows(images)
        blurred = torch.empty(images.shape)
        at_once = max(1, AT_ONCE // images.shape[2:].numel())
        for planes, out in zip(images.flatten(0, 1).split(at_once), blurred.flatten(0, 1).split(at_once), strict=True):
            self._filter(planes, out)
        return blurred

    def _of_windows(self, planes: torch.Tensor) -> torch.Tensor:
        """Return the medians of planes ``(..., H, W)``, by torch."""
        windows = _mirrored(planes, self.kernel).unfold(-2, self.kernel, 1).unfold(-2, self.kernel, 1)
        return windows.flatten(-2).median(dim=-1).values

    def _filter(self, planes: torch.Tensor, out: torch.Tensor) -> None:
        """Write the medians of planes ``(k, H, W)`` into `out`.

        OpenCV filters all planes as one, stacked below each other: small kernels on floats, large ones on grey levels.
        Planes with other values and large kernels, and planes with NaN, are filtered by torch.
        """
        if bool(planes.sum().isnan()):  # OpenCV treats NaN as a number
            out.copy_(self._of_windows(planes))
            return
        padded, margin = _mirrored(planes, self.kernel), self.kernel // 2
        stacked = padded.flatten(0, 1).numpy()
        levels = None if self.kernel == SMALL[0] else _grey_levels(stacked)
        if levels is None and self.kernel not in SMALL:
            out.copy_(self._of_windows(planes))
            return
        blurred = cv2.medianBlur(stacked if levels is None else levels, self.kernel).reshape(padded.shape)
        inner = blurred[:, margin:-margin, margin:-margin]
        if levels is None:
            out.copy_(torch.from_numpy(inner))
        else:
            np.divide(inner, np.float32(255), out=out.numpy())


class _Blur(torch.autograd.Function):
    """A median and its gradient, which goes in equal parts to the values of the window that equal the median."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, images: Images, kernel: int, median: Callable[[Images], Images]
    ) -> Images:
        medians = median(images)
        ctx.save_for_backward(images, medians)
        ctx.kernel = kernel
        return medians

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, upstream: Images) -> tuple[Images, None, None]:
        images, medians = ctx.saved_tensors
        padded = _mirrored(images, ctx.kernel)
        equal = [window == medians for window in _windows(padded, ctx.kernel)]
        count = torch.zeros_like(medians)
        for mask in equal:
            count += mask
        share, spread = upstream / count, torch.zeros_like(padded)
        for mask, window in zip(equal, _windows(spread, ctx.kernel), strict=True):
            window += mask * share
        margins = [ctx.kernel // 2] * 4
        return torch.ops.aten.reflection_pad2d_backward(spread, images, margins), None, None


def _mirrored(planes: torch.Tensor, kernel: int) -> torch.Tensor:
    return torch.nn.functional.pad(planes, [kernel // 2] * 4, mode="reflect")


def _windows(padded: torch.Tensor, kernel: int) -> Iterator[torch.Tensor]:
    """Yield views ``(N, C, H, W)`` of mirrored images: for each place in the window, the values at that place."""
    height, width = (side - kernel + 1 for side in padded.shape[2:])
    for down in range(kernel):
        for right in range(kernel):
            yield padded[:, :, down : down + height, right : right + width]


def _grey_levels(plane: np.ndarray) -> np.ndarray | None:
    """Return uint8 levels, which OpenCV's large medians need; None if a value lies between two levels."""
    if _off(plane[:1], cv2.convertScaleAbs(plane[:1], alpha=255)):  # quick: in most planes the first row shows it
        return None
    levels = cv2.convertScaleAbs(plane, alpha=255)
    return None if _off(plane, levels) else levels


def _off(plane: np.ndarray, levels: np.ndarray) -> bool:
    """Return whether a value differs from its level by 1e-3 levels or more."""
    return bool(cv2.norm(plane * np.float32(255), levels.astype(np.float32), cv2.NORM_INF) >= 1e-3)


@hookimpl
def components() -> list[Purification]:
    return [MedianBlur()]

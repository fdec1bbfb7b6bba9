"""Separable symmetric filters whose gradient is as fast as the filter.

The gradient of a filter with a symmetric window is the same filter over the upstream gradient with zeros around it. On
the CPU OpenCV computes both, in one call for all planes, which are stacked to one tall plane. Rows of the result that
mix two planes are cut off, as borders are.
"""

import cv2
import torch
import torch.nn.functional as F
from torch.autograd.function import FunctionCtx, once_differentiable

ADDRESSED = 2**31
"""As many numbers a GPU's kernels for channels apart can address; of more, each plane is an image of one channel."""


def gaussian_line(size: int, sigma: float) -> torch.Tensor:
    """Return a Gaussian window ``(size,)``, float32 of sum 1, of an odd size and a standard deviation in px."""
    line = torch.exp(-((torch.arange(size, dtype=torch.float64) - size // 2) ** 2) / (2 * sigma**2))
    return (line / line.sum()).float()


def filtered(images: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """Return ``(..., H - k + 1, W - k + 1)``: the window `line` ``(k,)`` slid down and across ``(..., H, W)``.

    `line` is symmetric and of odd length; borders are the caller's to add. The result has one derivative.
    """
    return _Filtered.apply(images, line)


class _Filtered(torch.autograd.Function):
    """The filter with its gradient."""

    @staticmethod
    def forward(ctx: FunctionCtx, images: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(line)
        return _slid(images, line)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        (line,) = ctx.saved_tensors
        return _slid(F.pad(upstream, [len(line) - 1] * 4), line), None


def _slid(images: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """Return the filter's result, by OpenCV on the CPU and by torch elsewhere."""
    height, width = images.shape[-2:]
    if images.device.type != "cpu" or images.dtype not in (torch.float32, torch.float64):
        return _convolved(images, line)
    margin, window = len(line) // 2, line.numpy()
    stacked = cv2.sepFilter2D(images.contiguous().view(-1, width).numpy(), -1, window, window)
    whole = torch.from_numpy(stacked).view(images.shape)
    return whole[..., margin : height - margin, margin : width - margin]


def _convolved(images: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """Return the same by two convolutions, in which each plane is a channel: a GPU has kernels for channels apart."""
    channels = images[..., 0, 0].numel() if images.numel() < ADDRESSED else 1
    window = line.to(images).expand(channels, 1, -1).contiguous()
    planes = images.reshape(-1, channels, *images.shape[-2:])
    down = F.conv2d(planes, window[..., None], groups=channels)
    across = F.conv2d(down, window[:, :, None], groups=channels)
    return across.view(*images.shape[:-2], *across.shape[-2:])

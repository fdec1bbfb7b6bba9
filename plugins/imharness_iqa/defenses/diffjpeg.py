"""Differentiable JPEG.

Reich, Debnath, Patel & Chakradhar, "Differentiable JPEG: The Devil is in the Details" (WACV 2024), in the form whose
forward pass is JPEG itself and whose gradient is that of a smooth rounding (Shin & Song, 2017). Quantisation tables of
ITU-T T.81, annex K, colour conversion of JFIF, chroma at half the size; the cosine transform of all blocks is one
matrix product.
"""

import math

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

BLOCK, UNIT = 8, 16
LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMINANCE = (
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
)  # fmt: skip
TO_YCBCR = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
TO_RGB = ((1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0))


class DiffJpeg(Purification):
    """JPEG whose rounding has a smooth gradient; the borders are repeated up to whole blocks."""

    info = DefenseInfo(
        id="harness/diffjpeg",
        version="2",
        group="compression",
        grid={"quality": (10, 30, 50, 70, 90)},
        differentiable=True,
        paper="reich2024",
    )
    quality: int = Field(default=50, ge=1, le=100, description="JPEG quality, as libjpeg counts it.")

    def build(self, device: torch.device) -> Purifier:
        cosines = cosine_matrix().to(device)
        luminance, chrominance = (table(t, self.quality).to(device) for t in (LUMINANCE, CHROMINANCE))
        forth, back = (torch.tensor(m, device=device) for m in (TO_YCBCR, TO_RGB))

        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            whole = F.pad(images, (0, -width % UNIT, 0, -height % UNIT), mode="replicate")
            ycc = torch.einsum("ij,njhw->nihw", 255 * forth, whole)
            luma = _coded(ycc[:, :1] - 128, cosines, luminance) + 128
            chroma = _coded(F.avg_pool2d(ycc[:, 1:], 2), cosines, chrominance)
            large = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
            rgb = torch.einsum("ij,njhw->nihw", back / 255, torch.cat([luma, large], dim=1))
            return rgb[:, :, :height, :width].clamp(0, 1)

        return purify


def cosine_matrix() -> torch.Tensor:
    """Return the orthonormal cosine transform of a flattened 8x8 block, ``(64, 64)``."""
    k = torch.arange(BLOCK, dtype=torch.float64)
    line = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / (2 * BLOCK)) * (2 / BLOCK) ** 0.5
    line[0] /= 2**0.5
    return torch.kron(line, line).float()


def table(base: tuple[int, ...], quality: int) -> torch.Tensor:
    """Return the quantisation table ``(64,)`` of a quality, as libjpeg scales it."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((torch.tensor(base) * scale + 50) // 100).clamp(1, 255).float()


def _coded(planes: torch.Tensor, cosines: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Return planes ``(N, C, H, W)`` after transform, quantisation and back, with a step ``(64,)`` per coefficient."""
    shape = planes.shape
    blocks = planes.view(*shape[:2], shape[2] // BLOCK, BLOCK, shape[3] // BLOCK, BLOCK).transpose(3, 4)
    coefficients = blocks.reshape(-1, BLOCK * BLOCK) @ (cosines.T / steps)
    decoded = _Rounded.apply(coefficients) @ (steps[:, None] * cosines)
    return decoded.view(blocks.shape).transpose(3, 4).reshape(shape)


class _Rounded(torch.autograd.Function):
    """Rounding whose gradient is that of ``round(x) + (x - round(x)) ** 3``."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, upstream: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * upstream * (x - x.round()).square_()


@hookimpl
def components() -> list[Purification]:
    return [DiffJpeg()]

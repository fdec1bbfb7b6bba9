"""Phase congruency: where the Fourier components of an image are in phase, at any contrast.

Kovesi, "Image Features from Phase Congruency" (Videre 1999), with the noise threshold and the filters of FSIM (Zhang et
al., IEEE TIP 2011), as piq computes them. The gradient is written out because automatic differentiation would keep
several copies of every filter response.
"""

import math
from functools import lru_cache

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from imharness.data import double

SCALES, ORIENTATIONS = 4, 4
SHORTEST, WIDTH, NARROWER = 6, 0.55, 1.2
"""The wavelength of the smallest scale, px; the standard deviation of a log-Gabor filter as a fraction of its centre
frequency; and how many standard deviations of its angle lie between two neighbouring orientations."""
CUTOFF, ORDER = 0.45, 15
"""The cutoff, in cycles per px, and the order of the Butterworth low-pass filter that removes the corners of the
spectrum."""
DEVIATIONS, OVERESTIMATED = 2.0, 1.7
"""The noise threshold is (mean + `DEVIATIONS` standard deviations of the energy of noise) / `OVERESTIMATED`."""
EPS = torch.finfo(torch.float32).eps


def _frequencies(side: int, device: torch.device) -> torch.Tensor:
    """Return frequencies ``(side,)`` in the order of the Fourier transform; those of an odd side reach -.5 and .5."""
    return torch.fft.ifftshift((torch.arange(side, device=device) - side // 2) / (side - side % 2))


@lru_cache(maxsize=8)
def _filters(height: int, width: int, device: torch.device) -> tuple[torch.Tensor, tuple[float, ...]]:
    """Return log-Gabor filters ``(orientations, scales, H, W)`` over frequencies, and a factor for each orientation.

    The factor times the median amplitude at the smallest scale is the noise threshold of the orientation.
    """
    rows, columns = (_frequencies(side, device) for side in (height, width))
    radius = torch.hypot(*torch.meshgrid(rows, columns, indexing="ij"))
    low = 1 / (1 + (radius / CUTOFF) ** (2 * ORDER))
    radius[0, 0] = 1  # the constant, which no filter passes
    waves = [SHORTEST * 2**scale for scale in range(SCALES)]
    bands = (
        torch.stack([torch.exp(-(torch.log(radius * wave) ** 2) / (2 * math.log(WIDTH) ** 2)) for wave in waves]) * low
    )
    bands[:, 0, 0] = 0
    theta = torch.atan2(-columns[None], rows[:, None])
    turns = torch.arange(ORIENTATIONS, device=device)[:, None, None] * math.pi / ORIENTATIONS
    apart = torch.atan2(torch.sin(theta - turns), torch.cos(theta - turns))
    spread = torch.exp(-(apart**2) / (2 * (math.pi / ORIENTATIONS / NARROWER) ** 2))
    filters = spread[:, None] * bands
    spatial = double(torch.fft.ifft2(filters).real).sum(dim=1).square().sum(dim=(1, 2)) * height * width
    power = spatial / (math.log(2) * double(filters[:, 0]).square().sum(dim=(1, 2)))
    above = (math.sqrt(math.pi / 2) + DEVIATIONS * math.sqrt(2 - math.pi / 2)) / OVERESTIMATED
    return filters, tuple((power.sqrt() * above).tolist())


def phase_congruency(luma: torch.Tensor) -> torch.Tensor:
    """Return the phase congruency ``(N, H, W)``, about 0 to 1, of grey images ``(N, H, W)``; differentiable once."""
    return _PhaseCongruency.apply(luma)


class _PhaseCongruency(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, luma: torch.Tensor) -> torch.Tensor:
        filters, factors = _filters(luma.shape[1], luma.shape[2], luma.device)
        energy, amplitude = torch.full_like(luma, EPS), torch.full_like(luma, EPS)
        spectrum, saved = torch.fft.fft2(luma)[:, None], []
        for kernel, factor in zip(filters, factors, strict=True):
            response = torch.fft.ifft2(spectrum * kernel)
            total, size = response.sum(dim=1), _length(response)
            along, beside = _turned(response, total)
            median = size[:, 0].flatten(1).median(dim=1)
            above = (along.sum(dim=1) - beside.abs_().sum(dim=1)).sub_(factor * median.values[:, None, None])
            energy += above.clamp(min=0)  # what is above the threshold
            amplitude += size.sum(dim=1)
            saved += [response, size, above, median.indices]
        ctx.save_for_backward(energy, amplitude, *(saved if ctx.needs_input_grad[0] else ()))
        return energy / amplitude

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, upstream: torch.Tensor) -> torch.Tensor:
        """Return the gradient by the image.

        With responses R_s at an orientation, total T = sum R_s, direction m = T / |T| and g_s = sign(Im(R_s conj(m))),
        it adds to the energy, if that is above 0,

            Re(M conj(m)) - threshold,  M = T + i sum g_s R_s.

        The gradient by a complex number z is d/dRe(z) + i d/dIm(z): that by R_s is m - i g_s m, where it stands beside
        m, and through m, which depends on T, (M - Re(M conj(m)) m) / |T|. Amplitude and threshold add multiples of
        R_s / |R_s|.
        """
        energy, amplitude, *saved = ctx.saved_tensors
        filters, factors = _filters(upstream.shape[1], upstream.shape[2], upstream.device)
        of_energy, of_amplitude = upstream / amplitude, -upstream * energy / amplitude.square()
        gradient = torch.zeros_like(upstream, dtype=saved[0].dtype)
        rows = torch.arange(len(upstream), device=upstream.device)
        for index, (kernel, factor) in enumerate(zip(filters, factors, strict=True)):
            response, size, above, median = saved[4 * index : 4 * index + 4]
            total = response.sum(dim=1)
            length = _length(total)
            slope = of_energy * (above > 0)
            side = _turned(response, total)[1].sign_()
            # the gradient by |R_s|; the threshold is a multiple of one of them, the median at the smallest scale
            of_size = of_amplitude[:, None].repeat(1, size.shape[1], 1, 1)
            of_size[:, 0].flatten(1)[rows, median] -= factor * slope.sum(dim=(1, 2))
            direction, of_direction = total / (length + EPS), total + 1j * (side * response).sum(dim=1)  # m, M
            along = (of_direction.conj() * total).real / (length * (length + EPS)).clamp(min=EPS)
            of_total = (of_direction - along * total) / (length + EPS)
            of_response = response * of_size.div_(size.clamp(min=EPS))
            of_response += (slope * (direction + of_total))[:, None]
            of_response -= (1j * slope * direction)[:, None] * side
            gradient += (torch.fft.fft2(of_response) * kernel).sum(dim=1)
        return torch.fft.ifft2(gradient).real


def _length(numbers: torch.Tensor) -> torch.Tensor:
    """Return the absolute values of complex numbers; faster than `abs`, which takes as long as a Fourier transform."""
    real, imaginary = numbers.real, numbers.imag
    return torch.addcmul(real * real, imaginary, imaginary).sqrt_()


def _turned(response: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the parts of responses ``(N, scales, H, W)`` along their sum ``(N, H, W)`` and beside it."""
    mean = total / (_length(total) + EPS)
    turned = response * mean.conj()[:, None]
    return turned.real, turned.imag

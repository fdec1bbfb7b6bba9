"""Noise of five colours and a checkerboard, with a standard deviation of at most 0.3."""

import torch

from imharness.images import ImageRng, Images

LARGEST = 0.3


def _added(images: Images, severity: torch.Tensor, drawn: torch.Tensor) -> Images:
    return images + LARGEST * severity.view(-1, 1, 1, 1) * drawn


def uniform_white(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add uniform noise."""
    return _added(images, severity, (rng.uniform(*images.shape[1:]) - 0.5) * 12**0.5)


def gaussian_white(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add Gaussian noise."""
    return _added(images, severity, rng.normal(*images.shape[1:]))


def pink(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add noise whose power falls with frequency."""
    return _added(images, severity, spectral_noise(rng.normal(*images.shape[1:]), torch.full_like(severity, -1.0)))


def blue(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add noise whose power grows with frequency."""
    return _added(images, severity, spectral_noise(rng.normal(*images.shape[1:]), torch.ones_like(severity)))


def colored(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add Gaussian noise of a random colour between violet and brown."""
    return _added(images, severity, spectral_noise(rng.normal(*images.shape[1:]), 4 * rng.uniform() - 2))


def spectral_noise(white: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """Return noise of unit deviation whose power is proportional to ``frequency ** exponent``, `exponent` ``(N,)``."""
    height, width = white.shape[2:]
    rows, columns = torch.fft.fftfreq(height, device=white.device), torch.fft.rfftfreq(width, device=white.device)
    radius = (rows[:, None].square() + columns[None].square()).sqrt().clamp(min=1 / max(height, width))
    shaped = torch.fft.irfft2(torch.fft.rfft2(white) * radius ** (exponent.view(-1, 1, 1, 1) / 2), s=(height, width))
    shaped = shaped - shaped.mean(dim=(2, 3), keepdim=True)
    return shaped / shaped.flatten(1).std(dim=1).clamp(min=1e-6).view(-1, 1, 1, 1)


def checkerboard(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Add the checkerboard of pixels that transposed convolutions leave, with a random amplitude per colour."""
    height, width = images.shape[2:]
    signs = 1.0 - 2 * ((torch.arange(height)[:, None] + torch.arange(width)[None]) % 2).to(images)  # (H, W), 1 and -1
    amplitude = 0.5 + rng.uniform(3, 1, 1)
    return _added(images, severity, amplitude * signs / 3)

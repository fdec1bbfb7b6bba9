"""A denoiser as prior helps an attack on pruned gradients, and alone it shows nothing of the private images."""

import pytest
import torch

from imharness.components.registry import installed
from imharness.data import generator
from imharness.gradients import Gradients, ImageRng
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.attacks.invgrad_prior import InvGradPrior
from imharness_reconstruction.denoiser import denoised
from imharness_reconstruction.per_image import image_gradients

CPU = torch.device("cpu")
COUNT, SHAPE, STEPS = 8, (3, 18, 18), 150


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    return installed().one("dataset", "digit-images[size=18]").build(CPU).load(list(range(COUNT)))


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    built: torch.nn.Module = installed().one("model", "lenet").build(CPU)(SHAPE, 10, generator(0))
    return built.eval().requires_grad_(False)


def rebuilt(attack: InvGrad | InvGradPrior, network: torch.nn.Module, shared: Gradients) -> torch.Tensor:
    return attack.build(CPU)(shared, network, SHAPE, ImageRng(range(COUNT)), lambda *done: None)


def psnr(images: torch.Tensor, private: torch.Tensor) -> torch.Tensor:
    """Return the peak signal-to-noise ratio of each image, in dB, (n,)."""
    return -10 * (images - private).square().mean(dim=(1, 2, 3)).log10()


def test_behind_pruning_the_prior_helps_and_alone_it_shows_nothing(
    digits: torch.Tensor, network: torch.nn.Module
) -> None:
    labels = torch.arange(COUNT) % 10
    shared = image_gradients(network, digits, labels)
    pruned = installed().one("defense", "gradient-pruning").build(CPU)(shared, ImageRng(range(COUNT)))
    best = max(psnr(rebuilt(InvGrad(steps=STEPS, total_variation=tv), network, pruned), digits).mean() for tv in TVS)
    helped = rebuilt(InvGradPrior(steps=STEPS), network, pruned)
    alone = rebuilt(InvGradPrior(steps=STEPS, gradient=False), network, pruned)
    guess = psnr(digits.mean(dim=0, keepdim=True).expand_as(digits), digits).mean()
    assert psnr(helped, digits).mean() > best + 0.5
    assert psnr(alone, digits).mean() < guess
    assert psnr(helped.roll(1, 0), digits).mean() < guess  # beside the wrong digits


TVS = (1e-4, 1e-3, 1e-2)
"""Weights of total variation; the best of them is compared with the denoiser."""


def test_without_the_gradient_images_do_not_depend_on_it(digits: torch.Tensor, network: torch.nn.Module) -> None:
    first, other = (image_gradients(network, images, torch.arange(COUNT) % 10) for images in (digits, digits.flip(0)))
    attack = InvGradPrior(steps=16, gradient=False)
    assert torch.equal(rebuilt(attack, network, first), rebuilt(attack, network, other))
    assert "show no leakage" in attack.assumes
    threats = {each.threat for each in (InvGrad(), InvGradPrior(), attack)}
    assert len(threats) == 3  # ranked apart, so that the prior's content is no defense's leakage


def test_noise_is_taken_out_of_images_in_colour_and_in_grey(digits: torch.Tensor) -> None:
    noisy = digits + 0.2 * torch.randn(digits.shape, generator=generator(1))
    assert psnr(denoised(noisy, 0.2), digits).mean() > psnr(noisy.clamp(0, 1), digits).mean() + 4
    grey = denoised(noisy[:, :1], 0.2)
    assert grey.shape == (COUNT, 1, *SHAPE[1:])
    assert psnr(grey, digits[:, :1]).mean() > psnr(noisy[:, :1].clamp(0, 1), digits[:, :1]).mean() + 4

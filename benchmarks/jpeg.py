"""Differentiable JPEG, forward and backward, compared with kornia."""

import functools
import warnings

import torch

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator

SIZE, IMAGES, GOAL = (384, 512), 4, 2.0


def lines() -> list[Line]:
    """Return the speed of a pass with its gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kornia.enhance import jpeg_codec_differentiable

    ours = installed().one("defense", "diffjpeg").build(torch.device("cpu"))
    images = torch.rand(IMAGES, 3, *SIZE, generator=generator(0))
    quality, streams = torch.full((IMAGES,), 50.0), ImageRng(range(IMAGES))
    run = functools.partial(_pass, images)
    ratio = best_of(3, lambda: run(lambda x: jpeg_codec_differentiable(x, quality))) / best_of(
        5, lambda: run(lambda x: ours(x, streams))
    )
    what = f"differentiable JPEG, {IMAGES} images of {SIZE[0]}x{SIZE[1]}, with gradient: times faster than kornia"
    return [Line(what, f"{ratio:.1f}x", f">= {GOAL:g}x", ratio >= GOAL)]


def _pass(images: torch.Tensor, codec) -> torch.Tensor:
    leaf = images.clone().requires_grad_(True)
    return torch.autograd.grad(codec(leaf).sum(), leaf)[0]

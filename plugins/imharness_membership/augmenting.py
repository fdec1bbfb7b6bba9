"""Altered copies of images: those on which a model trains, and those about which reference attacks ask a model.

Zagoruyko & Komodakis, "Wide Residual Networks" (BMVC 2016), section 3: mirroring, and crops from the image with 4 px of
reflections around it. Carlini et al., "Membership Inference Attacks From First Principles" (IEEE S&P 2022), section
VI-C: a model is asked about the copies that it may have been trained on.
"""

import itertools

import torch
import torch.nn.functional as F

from imharness.errors import HarnessError
from imharness.membership import TrainingPlan

PADDING = 4
"""The width of the reflected border around an image, px."""
SHIFTS = tuple(sorted(itertools.product((0, -PADDING, PADDING), repeat=2), key=lambda shift: sum(map(abs, shift))))
"""The shifts of views down and to the right, px, the smallest first."""
VIEWS = tuple((*shift, mirrored) for shift in SHIFTS for mirrored in (False, True))
"""The 18 views of an image as (shift down, shift to the right, whether mirrored); the first is the image itself."""


def augmented(features: torch.Tensor, plan: TrainingPlan, rng: torch.Generator) -> torch.Tensor:
    """Return the rows of a batch ``(n, ...)`` as a plan trains on them: each image cropped and mirrored at random.

    Without augmentation, or without rows, the batch is returned and `rng` is not used. Raises `HarnessError` where the
    plan asks for crops of rows that are no images ``(n, C, H, W)``.
    """
    if plan.augmentation == "none" or not len(features):
        return features
    _check(features)
    count, device = len(features), features.device
    corners = torch.randint(2 * PADDING + 1, (2, count), generator=rng).to(device)
    mirrored = (torch.rand(count, generator=rng) < 0.5).to(device)
    height, width = features.shape[2:]
    rows = corners[0, :, None] + torch.arange(height, device=device)  # (n, H)
    columns = torch.arange(width, device=device).expand(count, width)
    columns = corners[1, :, None] + torch.where(mirrored[:, None], columns.flip(1), columns)  # (n, W)
    numbers = torch.arange(count, device=device)[:, None, None]
    views: torch.Tensor = _padded(features).permute(0, 2, 3, 1)[numbers, rows[:, :, None], columns[:, None, :]]
    return views.permute(0, 3, 1, 2).contiguous()


def view(features: torch.Tensor, number: int) -> torch.Tensor:
    """Return a view of images ``(n, C, H, W)``, by its number in `VIEWS`.

    View 0 returns the rows themselves, which need not be images; others raise `HarnessError` for rows that are none.
    """
    if number == 0:
        return features
    _check(features)
    down, right, mirrored = VIEWS[number]
    height, width = features.shape[2:]
    top, left_edge = PADDING - down, PADDING - right
    moved = _padded(features)[:, :, top : top + height, left_edge : left_edge + width]
    return moved.flip(3) if mirrored else moved


def _padded(images: torch.Tensor) -> torch.Tensor:
    return F.pad(images, (PADDING,) * 4, mode="reflect")


def _check(features: torch.Tensor) -> None:
    if features.ndim != 4 or min(features.shape[2:]) <= PADDING:
        raise HarnessError(
            f"crops and mirror images need rows that are images of more than {PADDING} px a side, "
            f"got rows of shape {tuple(features.shape[1:])}; leave augmentation and queries out for them"
        )

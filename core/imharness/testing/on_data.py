"""Checks of a component on images of a run: what random inputs do not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F

from imharness.contracts.component import Component
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import generator
from imharness.contracts.values import Images
from imharness.errors import ContractError
from imharness.running.target import storable
from imharness.testing.probe import Probe

OTHERWISE = 3.0
"""By which factor what a component does may differ between images and the same images without their last row and
column."""
HALF_A_LEVEL = 0.5 / 255
WIDENED = 0.5
"""Scores may leave the declared bounds by this share of their width: bounds are those of usual images."""
NOTICED = 0.1
"""A score is better only by more than this share of the spread of clean images."""
LEAST_SPREAD = 0.05
"""The least share of the declared bounds over which scores of clean, distorted, dark and bright images are spread."""


def checks_on_data(component: Component, probe: Probe, images: Images) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks on images ``(n, 3, H, W)`` in [0, 1] by name."""
    if isinstance(component, Purification):
        yield "does alike to images of about the same size", lambda: _purifies_alike(probe, images)
    elif isinstance(component, NoReferenceMetric):
        yield "declares bounds that hold its scores", lambda: _bounds(component, probe, images)
        yield "scores images better that are less distorted, or says so", lambda: _direction(component, probe, images)
        yield "scores alike images of about the same size", lambda: _scores_alike(probe, images)


def _purifies_alike(probe: Probe, images: Images) -> str:
    changed = []
    for crop in (images, images[:, :, :-1, :-1]):
        purified = probe.tensor(probe.built, {"images": crop}, probe.seeds(len(crop)))
        if purified.shape != crop.shape:
            purified = F.interpolate(purified, crop.shape[2:], mode="bilinear", antialias=True)
        changed.append(float((purified - crop).square().mean().sqrt()))
    return _alike("changes images", changed, images, HALF_A_LEVEL)


def _scores_alike(probe: Probe, images: Images) -> str:
    spread = []
    for crop in (images, images[:, :, :-1, :-1]):
        scores = _scores(probe, [crop, *distorted(crop)])
        spread.append(float(scores.max() - scores.min()))
    return _alike("spreads scores", spread, images, 0.0)


def _alike(does: str, amounts: Sequence[float], images: Images, least: float) -> str:
    height, width = images.shape[2:]
    message = (
        f"it {does} of {width} x {height} px by {amounts[0]:.3g}, of {width - 1} x {height - 1} px by {amounts[1]:.3g}"
    )
    if max(amounts) > OTHERWISE * min(amounts) + least:
        raise ContractError(f"{message}: it goes by the size of images")
    return message


def _bounds(component: NoReferenceMetric, probe: Probe, images: Images) -> str:
    scores = _scores(probe, [images, *distorted(images), storable(0.3 * images), storable(0.7 + 0.3 * images)])
    lower, upper = component.bounds
    room, (low, high) = WIDENED * (upper - lower), (float(scores.min()), float(scores.max()))
    message = (
        f"scores of clean, noisy, blurred, dark and bright images lie in [{low:.3g}, {high:.3g}], bounds are "
        f"[{lower:g}, {upper:g}]"
    )
    inside = float(((scores >= lower - room) & (scores <= upper + room)).float().mean())
    if inside < 0.5:
        raise ContractError(f"{message}: gains, which are shares of the bounds, mean nothing")
    if high - low < LEAST_SPREAD * (upper - lower):
        raise ContractError(
            f"{message}: they use {(high - low) / (upper - lower):.1%} of them, so that any gain looks small"
        )
    return message


def _direction(component: NoReferenceMetric, probe: Probe, images: Images) -> str:
    sign = {"better_quality": 1, "worse_quality": -1}.get(component.info.higher_means)
    if sign is None:
        return "says nothing of quality"
    clean, noisy, blurred = _scores(probe, [images, *distorted(images)]).chunk(3)
    least = NOTICED * float(clean.max() - clean.min())
    wrong = [float((sign * (degraded - clean) > least).float().mean()) for degraded in (noisy, blurred)]
    message = f"strong noise and blur score better than the image on {wrong[0]:.0%} and {wrong[1]:.0%} of {len(images)}"
    if min(wrong) > 0.8:
        raise ContractError(f"{message}, although higher_means={component.info.higher_means!r}")
    return message


def distorted(images: Images) -> tuple[Images, Images]:
    """Return images with strong noise, and images that are strongly blurred; multiples of 1/255 in [0, 1]."""
    noise = torch.randn(images.shape, generator=generator(0))
    blurred = F.avg_pool2d(F.pad(images, [4] * 4, mode="reflect"), 9, stride=1)
    return storable(images + 0.2 * noise), storable(blurred)


def _scores(probe: Probe, batches: Sequence[Images]) -> torch.Tensor:
    return torch.cat([probe.tensor(probe.built, {"images": batch}, probe.seeds(len(batch))) for batch in batches])

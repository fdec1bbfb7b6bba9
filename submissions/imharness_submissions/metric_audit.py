"""Tests whether the gradient that a submitted metric or distance claims is that of its scores.

Attacks on a metric follow its gradient, so one with another gradient than its own looks robust. The gradient is
compared with queries at random projections (`imharness.running.projections`), on images that the profile's tracks show.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

import torch

from imharness.components.registry import Registry
from imharness.contracts.component import Component
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import Images, Scores
from imharness.planning.profile import Profile
from imharness.running.projections import STEPS, Followed, follow_scores, follow_steps
from imharness.running.secret_split import hidden
from imharness_submissions.gradient_audit import IMAGES, chosen_by
from imharness_submissions.report import GradientAudit

FEWEST = 4
"""The least number of images in a call. The number is drawn anew for each audit, so that a metric cannot know it."""


@dataclass(frozen=True)
class TrialImages:
    """Images float32 ``(N, 3, H, W)`` that a metric is tried on, with their references where it compares."""

    images: Images
    reference: Images | None
    batch: int


def claims_a_gradient(component: Component) -> TypeGuard[NoReferenceMetric | FullReferenceMetric]:
    """Say whether a component is a metric of single images, or a distance, that says it is differentiable."""
    return isinstance(component, NoReferenceMetric | FullReferenceMetric) and component.info.differentiable


def examine_metric(
    metric: NoReferenceMetric | FullReferenceMetric, registry: Registry, profile: Profile, device: torch.device
) -> GradientAudit | None:
    """Compare a metric's gradient with queries; None where no track of the profile shows images that it takes."""
    trial = _drawn(registry, profile, device, compared=isinstance(metric, FullReferenceMetric))
    if trial is None:
        return None
    built = metric.build(device)
    compared = [(follow_scores, "one level")]
    if trial.reference is not None:
        compared.append((follow_steps, f"{' and '.join(map(str, STEPS))} levels"))
    flags = []
    for follow, size in compared:
        batches = list(_followed(follow, built, trial, device))
        misled, cosine = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("misled", "cosine"))
        if float(misled.mean()) > 0:
            flags.append(
                f"misleading gradients: along random changes of {size} of 8 bits the slopes of its gradient and those "
                f"found by queries have a cosine of {float(cosine.nanmean()):.2f}; declare differentiable=False"
            )
    return GradientAudit(
        component=metric.label, metric=metric.label, images=len(trial.images), gains=(), flags=tuple(flags)
    )


def _followed(
    follow: Callable[..., Followed], built: Callable[..., Scores], trial: TrialImages, device: torch.device
) -> Iterator[Followed]:
    """Compare slopes with queries, batch by batch."""
    for start in range(0, len(trial.images), trial.batch):
        some = slice(start, start + trial.batch)
        beside = () if trial.reference is None else (trial.reference[some],)

        def score(images: Images, beside: tuple[Images, ...] = beside) -> Scores:
            return built(images, *beside)

        streams = ImageRng([secrets.randbelow(2**31) for _ in trial.images[some]], device)
        yield follow(score, trial.images[some], streams)


def _drawn(registry: Registry, profile: Profile, device: torch.device, *, compared: bool) -> TrialImages | None:
    """Draw images of one shape from a data set that the profile selects, both anew for each metric."""
    dice = secrets.SystemRandom()
    datasets = {c.label: c for track_profile in profile.tracks.values() for c in chosen_by(registry, track_profile)}
    for dataset in dice.sample(list(datasets.values()), len(datasets)):
        if not isinstance(dataset, ImageDataset):
            continue
        data = hidden(dataset.build(device), profile.secret)
        references = dict(_with_references(data, compared))
        if not references:
            continue
        shape = data.shapes[dice.choice(list(references))]
        of_this_shape = [position for position in references if data.shapes[position] == shape]
        chosen = dice.sample(of_this_shape, min(IMAGES, len(of_this_shape)))
        reference = data.load([references[position] for position in chosen]).to(device) if compared else None
        return TrialImages(data.load(chosen).to(device), reference, FEWEST + secrets.randbelow(IMAGES - FEWEST + 1))
    return None


def _with_references(data: ImageSet, compared: bool) -> Iterator[tuple[int, int]]:
    """Yield the positions of the images on which a metric can be tried, each with the position of its reference.

    Without a reference, for a metric that is not `compared`, that is the image's own. An image is left out if its
    reference is itself, or is not in the data set, as with the photographs that ship.
    """
    if not compared:
        yield from ((position, position) for position in range(len(data)))
    elif "reference" in data.columns:
        position_of = {name: position for position, name in enumerate(data.names)}
        for position, reference in enumerate(data.columns["reference"]):
            if str(reference) != data.names[position] and str(reference) in position_of:
                yield position, position_of[str(reference)]

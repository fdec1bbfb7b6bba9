"""Tests whether a submitted gradient defense changes the gradients of a training as much as those that are shared.

An entry is ranked by the accuracy of the model that is trained behind it, and by what shared gradients give away. So a
defense that can distinguish the two would leave the gradients of trainings alone, and share noise. The conformance
suite compares both on random tensors, but a package can know their names and shapes. Here the network and the images
are drawn anew from those that the profile selects. Gradients of batches are those of a training, and gradients of
single images those that are shared.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from imharness.components.registry import Registry
from imharness.contracts.component import Component
from imharness.contracts.gradient_defense import GradientDefense, ProtectGradients
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.model import Model
from imharness.contracts.randomness import ImageRng, generator
from imharness.planning.profile import Profile
from imharness.running.secret_split import hidden
from imharness.testing.privacy import SHARED, TRAINED, TURNED
from imharness_submissions.gradient_audit import chosen_by
from imharness_submissions.planned import concerns
from imharness_submissions.report import GradientAudit

IMAGES = 16
"""How many images are drawn."""
BATCHES = 4
"""How many training steps are compared, each on a batch of half of the images."""


def examine_sharing(
    defense: GradientDefense, registry: Registry, profile: Profile, device: torch.device
) -> GradientAudit | None:
    """Compare how much a defense changes gradients of a training and shared ones.

    Changes are measured by the mean cosine of gradients before and after. A defense is flagged if that of shared
    gradients is lower than that of a training by more than `TURNED`. Noise in proportion, pruning and rounding change
    both by about the same. All networks are tried until one flags the defense: of some, a batch's gradients look like
    those of one image. None is returned if no track of the profile has a network and labelled images for it.
    """
    audit = None
    for model, images in _drawn(registry, profile, defense):
        audit = _examined(defense, model, images, device)
        if audit.flags:
            break
    return audit


def _examined(defense: GradientDefense, model: Model, images: ImageSet, device: torch.device) -> GradientAudit:
    """Compare changes of both kinds of gradients of one network, with drawn weights, on drawn images."""
    labels = np.asarray(images.columns["label"]).astype(np.int64)
    positions = secrets.SystemRandom().sample(range(len(images)), min(IMAGES, len(images)))
    private = images.load(positions).to(device)
    targets = torch.from_numpy(labels[positions]).to(device)
    seed = generator(secrets.randbelow(2**31))
    network = model.build(device)(tuple(private.shape[1:]), int(labels.max()) + 1, seed).eval().requires_grad_(True)
    half = max(1, len(positions) // 2)
    batches = [torch.randperm(len(positions), generator=seed)[:half].to(device) for _ in range(BATCHES)]
    steps = [_gradient(network, private[rows], targets[rows]) for rows in batches]
    single = [_gradient(network, private[k : k + 1], targets[k : k + 1]) for k in range(half)]
    protect = defense.build(device)
    trained = [_cosine(protect, [step], norm, device) for norm in TRAINED for step in steps]
    shared = [_cosine(protect, single, norm, device) for norm in SHARED]
    step_cosine, share_cosine = float(np.mean(trained)), min(shared)
    flags = list[str]()
    if share_cosine < step_cosine - TURNED:
        flags.append(
            f"protects what is shared and not what trains the model: gradients of batches, as in training, come back "
            f"with cosine {step_cosine:.2f}, those of single images, as they are shared, with {share_cosine:.2f}"
        )
    return GradientAudit(
        component=defense.label, metric=model.label, images=len(positions), gains=(), flags=tuple(flags)
    )


def _drawn(registry: Registry, profile: Profile, defense: Component) -> list[tuple[Model, ImageSet]]:
    """Return the networks of a track in which the defense is planned, in a drawn order, each with drawn images."""
    dice, tracks = secrets.SystemRandom(), [registry.track(name) for name in profile.tracks]
    for track_profile, track in zip(profile.tracks.values(), tracks, strict=True):
        if not concerns(track, defense, tracks):
            continue
        chosen = chosen_by(registry, track_profile)
        models = [c for c in chosen if isinstance(c, Model)]
        sets = [hidden(c.build(torch.device("cpu")), profile.secret) for c in chosen if isinstance(c, ImageDataset)]
        labelled = [images for images in sets if "label" in images.columns and len(set(images.shapes)) == 1]
        if models and labelled:
            return [(model, dice.choice(labelled)) for model in dice.sample(models, len(models))]
    return []


def _gradient(network: torch.nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Mapping[str, torch.Tensor]:
    """Return the gradient of the mean loss of a batch: name of a parameter -> tensor of its shape."""
    named = {name: p for name, p in network.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        loss = F.cross_entropy(network(images), targets)
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def _cosine(
    protect: ProtectGradients, gradients: Sequence[Mapping[str, torch.Tensor]], norm: float, device: torch.device
) -> float:
    """Return the mean cosine of gradients, scaled to one norm, before and after one call of the defense."""
    stacked = {name: torch.stack([gradient[name] for gradient in gradients]) for name in gradients[0]}
    rows = _rows(stacked)
    scale = norm / torch.linalg.vector_norm(rows, dim=1).clamp(min=1e-30)
    scaled = {name: x * scale.view(-1, *[1] * (x.ndim - 1)) for name, x in stacked.items()}
    result = protect(scaled, ImageRng([secrets.randbelow(2**31) for _ in gradients], device))
    return float(F.cosine_similarity(_rows(result), rows, dim=1).mean())


def _rows(gradients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return gradients, parameter -> ``(n, *shape)``, with all parameters of each in one row ``(n, d)``."""
    return torch.cat([x.flatten(1) for x in gradients.values()], dim=1)

"""What comes back from a plugin is checked at the border: who, what was expected, what came, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from imharness.components.component import Component
from imharness.contracts.attack import BaseAttack
from imharness.contracts.defense import Purification
from imharness.contracts.membership import MembershipEvaluator
from imharness.contracts.metric import FullReferenceMetric, NoReferenceMetric
from imharness.contracts.reconstruction import ReconstructionAttack
from imharness.contracts.types import Images, Scores
from imharness.errors import ContractError

TOLERANCE = 1e-5
"""Slack for float32 arithmetic: 4/255 comes back as 4.0000002/255."""


def check_scores(scores: object, n: int, who: str) -> Scores:
    """Return float32 scores ``(n,)``, finite; raise `ContractError` otherwise."""
    if not isinstance(scores, torch.Tensor) or scores.shape != (n,):
        raise ContractError(f"{who}: expected scores of shape ({n},), got {_shown(scores)}; return one number per row")
    if not torch.isfinite(scores).all():
        bad = int((~torch.isfinite(scores)).sum())
        raise ContractError(f"{who}: {bad} of {n} scores are NaN or infinite; a score must be finite")
    return scores.detach().to(torch.float32)


def check_images(images: object, n: int, who: str, shape: tuple[int, ...] | None = None) -> Images:
    """Return float32 images ``(n, 3, H, W)`` in [0, 1]; raise `ContractError` otherwise."""
    if not isinstance(images, torch.Tensor) or images.ndim != 4 or len(images) != n or images.shape[1] != 3:
        raise ContractError(f"{who}: expected {n} images ({n}, 3, H, W), got {_shown(images)}")
    if shape is not None and tuple(images.shape[1:]) != shape:
        raise ContractError(f"{who}: expected images of shape {shape}, got {tuple(images.shape[1:])}")
    if images.dtype != torch.float32:
        raise ContractError(f"{who}: expected float32, got {images.dtype}")
    low, high = float(images.min()), float(images.max())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        raise ContractError(f"{who}: expected values in [0, 1], got [{low:.4g}, {high:.4g}]; clamp the result")
    return images.detach().clamp(0, 1)


def check_budget(recipe: BaseAttack, images: Images, attacked: Images) -> None:
    """Raise `ContractError` when an attack went beyond its declared radius; it is never clipped."""
    radius, norm = recipe.budget().radius, recipe.info.norm
    if radius is None or norm == "unrestricted":
        return
    change = (attacked - images).flatten(1)
    if norm == "linf":
        size = change.abs().amax(dim=1)
    elif norm == "l2":
        size = change.norm(dim=1)
    else:
        size = (attacked != images).any(dim=1).flatten(1).sum(dim=1).float()
    worst = float(size.max())
    if worst > radius * (1 + 1e-4) + TOLERANCE:
        raise ContractError(
            f"{recipe.label}: expected {norm} distance at most {radius:.6g}, got {worst:.6g}; "
            "declare a larger budget or project the result"
        )


def _shown(value: object) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def checked(recipe: Component, built: Any) -> Any:
    """Return a built component whose results are checked; all but attacks run without gradients."""
    if isinstance(recipe, BaseAttack):
        return _attack(recipe, built)
    for contract, wrap in _WRAPPERS.items():
        if isinstance(recipe, contract):
            return torch.no_grad()(wrap(recipe.label, built))
    return built


def _attack(recipe: BaseAttack, built: Callable[..., Any]) -> Callable[..., Any]:
    def perturb(images: Images, target: Any, rng: Any) -> Images:
        attacked = check_images(built(images, target, rng), len(images), recipe.label, tuple(images.shape[1:]))
        check_budget(recipe, images, attacked)
        return attacked

    return perturb


def _purifier(who: str, built: Callable[..., Any]) -> Callable[..., Any]:
    return lambda images, rng: check_images(built(images, rng), len(images), who)


def _one_score_each(who: str, built: Callable[..., Any]) -> Callable[..., Any]:
    return lambda images, *reference: check_scores(built(images, *reference), len(images), who)


def _evaluator(who: str, built: Callable[..., Any]) -> Callable[..., Any]:
    return lambda query: check_scores(built(query), len(query.target_labels), who)


def _reconstruction(who: str, built: Callable[..., Any]) -> Callable[..., Any]:
    def reconstruct(gradients: Any, model: Any, shape: tuple[int, ...], rng: Any, progress: Any) -> Images:
        with torch.enable_grad():
            images = built(gradients, model, shape, rng, progress)
        return check_images(images, len(rng), who, tuple(shape))

    return reconstruct


_WRAPPERS: dict[type[Component], Callable[[str, Callable[..., Any]], Callable[..., Any]]] = {
    Purification: _purifier,
    NoReferenceMetric: _one_score_each,
    FullReferenceMetric: _one_score_each,
    MembershipEvaluator: _evaluator,
    ReconstructionAttack: _reconstruction,
}

"""Scores images that somebody handed in against a defense, and measures how far they are from the originals."""

import hashlib

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.images import BaseAttack, Purification
from imharness.tracks import StepContext, StepResult, step
from imharness_iqa.steps import names_of, scoring


@step(version="1")
def evidence(context: StepContext) -> StepResult:
    """Score f(D(x')) of handed-in images, as often as asked with fresh draws of a random defense."""
    handed, attack = context.need("evidence"), context.component("attack")
    images = _named(context, list(handed.rows["name"]))
    score, draws = scoring(context, images), int(context.options["draws"])

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names, shown = names_of(images, positions), [handed.arrays[str(p)] for p in positions]
        for name, own in zip(names, shown, strict=True):
            if own.shape != tuple(batch.shape[1:]):
                sizes = " and ".join(f"{shape[2]} x {shape[1]}" for shape in (own.shape, batch.shape[1:]))
                raise UsageError(f"evidence on {name}: width and height differ from the original's: {sizes}")
        attacked = torch.from_numpy(np.stack(shown)).to(batch.device).float() / 255
        found = {"distance": distance(attack, attacked, batch)}
        return found | {str(draw): score(positions, _defended(context, names, attacked, draw)) for draw in range(draws)}

    found = context.map(images, measure)
    rows = {
        "clean": [clean_digest(images.load([p])[0]) for p in range(len(images))],
        "distance": found["distance"],
        "allowed": [allowed(attack)] * len(images),
    }
    repeated = {name: np.tile(np.asarray(own), draws) for name, own in rows.items()}
    scores = np.concatenate([found[str(draw)] for draw in range(draws)])
    draw = np.repeat(np.arange(draws), len(images))
    return StepResult(rows={"name": list(images.names) * draws, "draw": draw, "score": scores, **repeated})


def clean_digest(image: torch.Tensor) -> str:
    """Return the sha256 of an image ``(3, H, W)`` in [0, 1] as 8 bits ``(H, W, 3)``."""
    return hashlib.sha256(image.mul(255).round().byte().permute(1, 2, 0).contiguous().numpy().tobytes()).hexdigest()


def distance(attack: BaseAttack, attacked: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return how far attacked images ``(N, 3, H, W)`` are from images, in the norm of an attack ``(N,)``."""
    change = (attacked - images).flatten(1)
    if attack.info.norm == "l2":
        return torch.linalg.vector_norm(change, dim=1)
    if attack.info.norm == "l0":
        return (attacked != images).any(dim=1).flatten(1).sum(dim=1).float()
    return change.abs().amax(dim=1)


def allowed(attack: BaseAttack) -> float:
    """Return the greatest distance that an attack's images have once they are rounded to 8 bits; NaN without a bound.

    Originals are multiples of 1/255, so that rounding leaves the nearest multiple to the radius.
    """
    radius = attack.budget().radius
    if radius is None or attack.info.norm == "unrestricted":
        return float("nan")
    if attack.info.norm == "linf":
        return (int(255 * radius + 0.5) + 0.01) / 255
    return radius * (1 + 1e-4)


def _named(context: StepContext, names: list[str]) -> ImageSet:
    images = context.images()
    place = {name: position for position, name in enumerate(images.names)}
    for name in names:
        if name not in place:
            raise UsageError(f"evidence on {name!r:.100}: {context.component('dataset').label} has no such image here")
    return images.at([place[name] for name in names])


def _defended(context: StepContext, names: list[str], attacked: torch.Tensor, draw: int) -> torch.Tensor:
    defense = context.component("defense")
    if not isinstance(defense, Purification):
        return attacked
    streams = context.rng(names, "evidence", defense.label, str(context.options["fresh"]), str(draw))
    return context.build("defense")(attacked, streams)

"""What the cells of the track compute: distances from references, and distances after an attack."""

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.tracks import StepContext, StepResult, step

UNKNOWN = {
    "family": "",
    "severity": float("nan"),
    "group": "",
    "choice": -1,
    "judge": float("nan"),
    "same": float("nan"),
    "mos": float("nan"),
}
"""What stands for a column that a data set does not have."""


@step(version="2")
def distance(context: StepContext) -> StepResult:
    """Measure every image against its reference; larger = farther, whatever the metric's direction."""
    images = context.images()
    metric, farther = context.build("metric"), -context.component("metric").closeness
    origin = _origins(images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        reference = images.load([origin[p] for p in positions]).to(batch.device)
        return {"distance": farther * metric(batch, reference)}

    columns = {name: _column(images, name) for name in UNKNOWN}
    proxy = [images.proxy] * len(images)
    rows = {"name": list(images.names), "reference": images.columns["reference"], "proxy": proxy, **columns}
    return StepResult(rows={**rows, **context.map(images, measure)})


@step(version="1")
def attack(context: StepContext) -> StepResult:
    """Push every distorted image away from its reference, as the metric sees it; 8 bits before anything reads it."""
    images = context.images().first(int(context.options["images"]) or None)
    metric, farther = context.build("metric"), -context.component("metric").closeness
    perturb, recipe, origin = context.build("attack"), context.component("attack"), _origins(images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names = [images.names[p] for p in positions]
        reference = images.load([origin[p] for p in positions]).to(batch.device)
        target = context.target("metric", names, attack="attack", reference=reference)
        attacked = perturb(batch, target, context.rng(names, "attack", recipe.label)).mul(255).round() / 255
        return {
            "before": farther * metric(batch, reference),
            "after": farther * metric(attacked, reference),
            "linf": (attacked - batch).abs().amax(dim=(1, 2, 3)),
        }

    found = context.map(images, measure)
    columns = {name: _column(images, name) for name in ("family", "severity")}
    reference = np.asarray(images.columns["reference"])
    distorted = reference != np.array(images.names)
    return StepResult(
        rows={"name": list(images.names), "reference": reference, "distorted": distorted, **columns, **found}
    )


def _column(images: ImageSet, name: str) -> np.ndarray:
    return images.columns.get(name, np.full(len(images), UNKNOWN[name]))


def _origins(images: ImageSet) -> list[int]:
    position = {name: i for i, name in enumerate(images.names)}
    return [position[str(name)] for name in images.columns["reference"]]

"""The steps of the track: distances from references, without and under attack."""

import hashlib

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
    "judges": float("nan"),
    "same": float("nan"),
    "mos": float("nan"),
}
"""The values of columns that a data set does not have."""
SUBSTITUTE = "substitute"
"""The role of a distance whose gradient is followed in place of the metric's own."""
OWN, QUERIES = "own", "queries"
"""What an attack follows if it does not follow the gradient of a substitute: the metric's own gradient, or its scores
alone."""


@step(version="4", shared=True, doing="measuring {count}images with {metric}")
def distance(context: StepContext) -> StepResult:
    """Measure every image against its reference, and the time it takes; larger means farther, for every metric."""
    images = context.images()
    metric, farther = context.build("metric"), -context.component("metric").closeness
    origin = origins(images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        reference = images.load([origin[p] for p in positions]).to(batch.device)
        return {"distance": farther * metric(batch, reference)}

    columns = {name: _column(images, name) for name in UNKNOWN}
    proxy = [images.proxy] * len(images)
    reference = images.columns["reference"]
    rows = {
        "name": list(images.names),
        "reference": reference,
        "photograph": _photographs(images),
        "proxy": proxy,
        **columns,
    }
    measured = context.map(images, measure)
    return StepResult(rows={**rows, **measured}, facts={"ms": context.time_per_image(lambda x: metric(x, x), images)})


@step(version="5", shared=True, doing="attacking {count}images with {attack}[ on {metric}]")
def attack(context: StepContext) -> StepResult:
    """Attack distorted images so that the metric finds them farther from their references, and measure them again.

    Attacked images are rounded to 8 bits before they are measured. The attack follows the metric's gradient, that of a
    substitute, or scores alone; the column ``along`` says which. To follow the gradient of a substitute is the backward
    pass differentiable approximation of Athalye, Carlini & Wagner, "Obfuscated gradients give a false sense of
    security" (ICML 2018, section 4.1); unlike there, the attack sees the scores of the substitute, too.
    """
    images = context.images()
    drawn = spread(images, int(context.options["images"]))
    metric, farther = context.build("metric"), -context.component("metric").closeness
    followed = SUBSTITUTE if SUBSTITUTE in context.roles else "metric"
    perturb, component, origin = context.build("attack"), context.component("attack"), origins(images)
    chosen = images.at(drawn)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names = [chosen.names[p] for p in positions]
        reference = images.load([origin[drawn[p]] for p in positions]).to(batch.device)
        target = context.target(followed, names, attack="attack", reference=reference)
        attacked = perturb(batch, target, context.rng(names, "attack", component.label)).mul(255).round() / 255
        return {
            "before": farther * metric(batch, reference),
            "after": farther * metric(attacked, reference),
            "linf": (attacked - batch).abs().amax(dim=(1, 2, 3)),
        }

    measured = context.map(chosen, measure)
    columns = {name: _column(chosen, name) for name in ("family", "severity")}
    reference = chosen.columns["reference"]
    rows = {"name": list(chosen.names), "reference": reference, "photograph": _photographs(chosen), **columns}
    return StepResult(rows={**rows, "along": [_followed(context)] * len(chosen), **measured})


def _followed(context: StepContext) -> str:
    """Return the value of ``along``: the label of the substitute, `OWN` or `QUERIES`."""
    if SUBSTITUTE in context.roles:
        return str(context.component(SUBSTITUTE).label)
    return OWN if context.component("attack").info.access == "white_box" else QUERIES


def spread(images: ImageSet, count: int) -> list[int]:
    """Return the positions of distorted images, about `count` of them, spread over the photographs; 0: all.

    Of a choice, only the alternative that judges find nearer is taken: to push the other one away changes no choice.
    A distortion's severities on one reference are taken together. Every photograph gives one such group before any
    gives a second; a hash of names decides which comes first.
    """
    reference, photograph = np.asarray(images.columns["reference"]), _photographs(images)
    choice, judge = (_column(images, name) for name in ("choice", "judge"))
    farther = (choice == 1) & ~(judge > 0.5) | (choice == 0) & (judge > 0.5)
    distorted = np.flatnonzero((reference != np.array(images.names)) & ~farther)
    # 1. Group the distorted images by reference, family and choice.
    facts = [values[distorted] for values in (reference, _column(images, "family"), _column(images, "group"))]
    group = np.array([" ".join(map(str, values)) for values in zip(*facts, strict=True)])
    names, first, group_index, sizes = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
    # 2. Order the groups by a hash of their names, then by how many groups of the same photograph come before them.
    hashed = np.argsort([hashlib.sha256(name.encode()).digest() for name in names])
    before = np.zeros(len(names), int)
    groups_of: dict[str, int] = {}
    for i in hashed:
        photograph_name = str(photograph[distorted[first[i]]])
        before[i] = groups_of.get(photograph_name, 0)
        groups_of[photograph_name] = before[i] + 1
    order = hashed[np.argsort(before[hashed], kind="stable")]
    # 3. Take groups until they have `count` images, but at least one group.
    ends = np.cumsum(sizes[order])
    selected = order[(ends <= count) | (np.arange(len(order)) == 0)] if count else order
    return distorted[np.isin(group_index, selected)].tolist()


def _column(images: ImageSet, name: str) -> np.ndarray:
    """Return a column of the data set, or its value in `UNKNOWN` for every image where the data set lacks it."""
    return np.asarray(images.columns.get(name, np.full(len(images), UNKNOWN[name])))


def _photographs(images: ImageSet) -> np.ndarray:
    """Return the photograph of each image; its reference where the data set names no photograph."""
    return np.asarray(images.columns.get("photograph", images.columns["reference"]))


def origins(images: ImageSet) -> list[int]:
    """Return the position of each image's reference among the images."""
    position = {name: i for i, name in enumerate(images.names)}
    return [position[str(name)] for name in images.columns["reference"]]

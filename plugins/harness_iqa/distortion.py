"""How far an attack changes images, measured by the step that a run uses."""

from collections.abc import Callable

import numpy as np

from harness.api import AttackRecipe, FittedAttack, ImageDataset, NoReferenceMetric, Output
from harness.commands import context, find
from harness_iqa import steps

METERS = {"linf": "harness/linf", "ssim": "harness/ssim-uniform7", "psnr": "harness/psnr"}


def meter(
    attack: AttackRecipe,
    metric: NoReferenceMetric,
    dataset: ImageDataset,
    *,
    images: int,
    seed: int = 0,
    device: str = "auto",
) -> Callable[[AttackRecipe], float]:
    """Return a function: attack with other parameters -> mean distortion over the first images of a data set.

    The distortion is of the kind the attack declares; infinite ones (nothing changed) are left out. A part that is
    trained is trained once.
    """
    roles = {"dataset": dataset, "metric": metric, "attack": attack}
    options = {"adaptive": False, "samples": 1, "fit_images": images}
    distance = f"{steps.CLOSENESS}distortion"
    needs = {}
    if isinstance(attack, FittedAttack):
        trained = steps.fit(context({**roles, "attack": attack.unscaled()}, options=options, seed=seed, device=device))
        needs["fitted"] = Output({}, trained.arrays)

    def distortion(at: AttackRecipe) -> float:
        own = {**roles, "attack": at, distance: find("metric", METERS[at.info.distortion])}
        found = steps.attack(context(own, options=options, needs=needs, limit=images, seed=seed, device=device))
        numbers = np.asarray(found.rows["distortion"], dtype=float)
        finite = numbers[np.isfinite(numbers)]
        return float(finite.mean()) if len(finite) else float("inf")

    return distortion

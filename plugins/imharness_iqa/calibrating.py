"""The step that calibrates strengths within a run, for attacks and metrics without a preset."""

from collections.abc import Callable

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.images import BaseAttack
from imharness.tracks import StepContext, StepResult, step
from imharness_iqa.calibration import TARGETS, calibrated, mean_distortion
from imharness_iqa.disjoint import apart, photographs_of
from imharness_iqa.references import attacked_with
from imharness_iqa.sampling import spread_over
from imharness_iqa.steps import built, distances_of, names_of, target_of


@step(version="3", doing="finding the strengths of {attack}")
def calibrate(context: StepContext) -> StepResult:
    """Find the parameter values at which an attack reaches its targets, one row for each strength.

    Guardians of Image Quality, appendix A.3.4, on photographs that no tested image was made from. `value`: value of
    the parameter `field`; an integer field gets whole numbers. `reached`: whether the target lies between measured
    distortions. The array `tried` ``(n, 2)`` holds each value that was tried with its mean distortion.
    """
    images = chosen_on(context, len(context.images()))
    preset = calibrated(
        context.component("attack"), distortion_on(context, images), context.component("metric").info.id
    )
    targets = TARGETS[preset.distortion]
    rows = {
        "strength": list(targets),
        "field": [preset.field] * len(targets),
        "distortion": [preset.distortion] * len(targets),
        "target": np.array(list(targets.values())),
        "value": np.array([preset.strengths[strength] for strength in targets], dtype=float),
        "reached": np.array([strength not in preset.unreached for strength in targets]),
    }
    return StepResult(rows=rows, arrays={"tried": np.array(preset.measured, dtype=float)})


def chosen_on(context: StepContext, most: int) -> ImageSet:
    """Return up to `most` images on which strengths are chosen, equally many of each photograph that is not tested."""
    tested = [context.images(role, limited=False) for role in context.measures("tested").values()]
    images = apart(context.images(limited=False), tested, "calibration_dataset")
    return images.at(spread_over(photographs_of(images), images.names, most))


def distortion_on(context: StepContext, images: ImageSet) -> Callable[[BaseAttack], float]:
    """Return a function: attack with other parameters -> its mean distortion over images, of the kind it declares."""

    def distortion(tried: BaseAttack) -> float:
        perturb = built(context, tried, images)

        def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
            names = names_of(images, positions)
            rng = context.rng(names, "attack", tried.label)
            target = target_of(context, names, **attacked_with(context, images, positions))
            rounded = perturb(batch, target, rng).mul(255).round() / 255
            return distances_of(context, "", rounded, batch)

        return mean_distortion(context.map(images, measure), tried.info.distortion)

    return distortion

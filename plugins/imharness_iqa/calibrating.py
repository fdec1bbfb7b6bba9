"""The step that finds strengths in a run: how far an attack must go on a metric for which nobody has measured it."""

import numpy as np
import torch

from imharness.images import BaseAttack
from imharness.tracks import StepContext, StepResult, step
from imharness_iqa.calibration import TARGETS, calibrated, mean_distortion
from imharness_iqa.steps import built, distances_of, names_of, target_of


@step(version="1")
def calibrate(context: StepContext) -> StepResult:
    """Find the parameter values at which an attack reaches its targets, one row for each strength.

    Guardians of Image Quality, appendix A.3.4. `value`: of the parameter `field`; an integer field gets whole numbers.
    `reached`: whether the target lies between measured distortions. The array `tried` ``(n, 2)`` holds each value
    that was tried with its mean distortion.
    """
    images, recipe = context.images(), context.component("attack")

    def distortion(tried: BaseAttack) -> float:
        perturb = built(context, tried)

        def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
            names = names_of(images, positions)
            rng = context.rng(names, "attack", tried.label)
            rounded = perturb(batch, target_of(context, names), rng).mul(255).round() / 255
            return distances_of(context, "", rounded, batch)

        return mean_distortion(context.map(images, measure), recipe.info.distortion)

    preset = calibrated(recipe, distortion, context.component("metric").info.id)
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

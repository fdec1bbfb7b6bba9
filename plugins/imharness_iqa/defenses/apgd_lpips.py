"""APGD-LPIPS: adversarial training with labels corrected by LPIPS.

Guardians of Image Quality, appendix A.3.5; the method is `imharness_iqa.tuning.ApgdTraining`.
"""

from imharness.images import DefenseInfo, hookimpl
from imharness.training import TrainingDefense
from imharness_iqa.tuning import RADII, ApgdTraining


class ApgdLpips(ApgdTraining):
    """Adversarial training with APGD; the label of an attacked image falls with its LPIPS."""

    info = DefenseInfo(
        id="harness/apgd-lpips",
        version="1",
        group="training",
        differentiable=True,
        grid={"radius": RADII},
        paper="chistyakova2024",
    )
    distance = "harness/lpips[net=squeeze]"


@hookimpl
def components() -> list[TrainingDefense]:
    return [ApgdLpips(radius=radius) for radius in RADII]

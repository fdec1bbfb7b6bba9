"""APGD-SSIM: adversarial training with labels corrected by SSIM.

Guardians of Image Quality, appendix A.3.5; the method is `imharness_iqa.tuning.ApgdTraining`.
"""

from imharness.images import DefenseInfo, hookimpl
from imharness.training import TrainingDefense
from imharness_iqa.tuning import RADII, ApgdTraining


class ApgdSsim(ApgdTraining):
    """Adversarial training with APGD; the label of an attacked image falls with 1 - SSIM."""

    info = DefenseInfo(
        id="harness/apgd-ssim",
        version="1",
        group="training",
        differentiable=True,
        grid={"radius": RADII},
        paper="chistyakova2024",
    )
    distance = "harness/ssim-uniform7"


@hookimpl
def components() -> list[TrainingDefense]:
    return [ApgdSsim(radius=radius) for radius in RADII]

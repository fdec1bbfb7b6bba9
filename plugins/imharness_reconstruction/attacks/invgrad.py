"""Inverting gradients: align the gradient's direction, with a total-variation prior."""

from imharness.gradients import Info, ReconstructionAttack, hookimpl
from imharness_reconstruction.inversion import GradientInversion


class InvGrad(GradientInversion):
    """Inverting gradients: cosine distance of gradients and total variation, signed Adam."""

    info = Info(id="harness/invgrad", version="2", paper="geiping2020")


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [InvGrad()]

"""Inverting gradients: match the direction of the gradient, with a total-variation prior.

Geiping, Bauermeister, Dröge & Moeller (NeurIPS 2020), equation 4; the method is `imharness_reconstruction.inversion`.
"""

from imharness.gradients import Info, ReconstructionAttack, hookimpl
from imharness_reconstruction.inversion import GradientInversion


class InvGrad(GradientInversion):
    """Inverting gradients: cosine distance of gradients and total variation, signed Adam."""

    info = Info(id="harness/invgrad", version="6", paper="geiping2020")


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [InvGrad()]

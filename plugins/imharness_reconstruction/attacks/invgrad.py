"""Inverting gradients: match the direction of the gradient, with the total variation as a prior.

Geiping, Bauermeister, Dröge & Moeller (NeurIPS 2020), equation 4. `imharness_reconstruction.inversion` has the method.
"""

from imharness.gradients import Info, ReconstructionAttack, hookimpl
from imharness_reconstruction.inversion import GradientInversion


class InvGrad(GradientInversion):
    """Inverting gradients: signed Adam minimises the cosine distance of gradients and the total variation."""

    info = Info(id="harness/invgrad", version="7", paper="geiping2020")


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [InvGrad()]

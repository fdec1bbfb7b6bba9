"""Inverting gradients: align the gradient's direction, with a total-variation prior."""

from imharness.gradients import Info, Paper, ReconstructionAttack, hookimpl
from imharness_reconstruction.inversion import GradientInversion


class InvGrad(GradientInversion):
    """Inverting gradients: cosine distance of gradients and total variation, signed Adam."""

    info = Info(
        id="harness/invgrad",
        version="2",
        paper=Paper(
            title="Inverting Gradients - How easy is it to break privacy in federated learning?",
            authors="Geiping, Bauermeister, Dröge & Moeller",
            year=2020,
            url="https://arxiv.org/abs/2003.14053",
        ),
    )


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [InvGrad()]

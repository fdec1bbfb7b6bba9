"""RS: randomised smoothing of the score, cut into ordered classes."""

from imharness.images import Certification, DefenseInfo, hookimpl
from imharness_iqa.smoothing import ClassSmoothing


class Rs(ClassSmoothing):
    """Randomised smoothing: a radius within which the class of the score stays."""

    info = DefenseInfo(
        id="harness/rs",
        version="1",
        group="certified",
        differentiable=False,
        random=True,
        grid={"classes": (3, 5, 10, 15, 20)},
        paper="cohen2019",
    )


@hookimpl
def components() -> list[Certification]:
    return [Rs()]

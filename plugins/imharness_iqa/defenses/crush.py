"""A control that protects nothing: it maps scores to a narrow range, by a function that is flat where attacks lead.

The order of scores stays the same.
"""

from pydantic import Field

from imharness.images import DefenseInfo, Scores, hookimpl
from imharness_iqa.rescaling import Rescaling


class Crush(Rescaling):
    """Maps the scores by a function that is steep among clean images and flat above and below them."""

    info = DefenseInfo(id="harness/crush", version="1", control="crushed scores", group="none", differentiable=True)
    factor: float = Field(default=0.01, gt=0, le=1, description="Width of all scores, as a share of the range.")
    steepness: float = Field(default=2.0, gt=0, le=4, description="Slope in the middle of the range, over its width.")

    def rescaled(self, scores: Scores, bounds: tuple[float, float]) -> Scores:
        """Return ``middle + factor * range / 2 * softsign``, which goes on rising for ever."""
        middle, span = (bounds[0] + bounds[1]) / 2, bounds[1] - bounds[0]
        steep = 2 * self.steepness * (scores - middle) / span
        return middle + self.factor * span / 2 * steep / (1 + steep.abs())


@hookimpl
def components() -> list[Rescaling]:
    return [Crush()]

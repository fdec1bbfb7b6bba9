"""A control: scores in a hundredth of their range, which makes every number in units of that range small."""

from pydantic import Field

from imharness.images import DefenseInfo, Scores, hookimpl
from imharness_iqa.rescaling import Rescaling


class Squeeze(Rescaling):
    """Squeezes the scores towards the middle of their range: c + eps f(x)."""

    info = DefenseInfo(id="harness/squeeze", version="1", control="squeezed scores", group="none", differentiable=True)
    factor: float = Field(default=0.01, gt=0, le=1, description="What is left of every difference of scores.")

    def rescaled(self, scores: Scores, bounds: tuple[float, float]) -> Scores:
        """Return the scores, nearer to the middle of their range."""
        middle = (bounds[0] + bounds[1]) / 2
        return middle + self.factor * (scores - middle)


@hookimpl
def components() -> list[Rescaling]:
    return [Squeeze()]

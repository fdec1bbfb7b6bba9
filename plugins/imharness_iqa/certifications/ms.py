"""MS: the median score of noisy copies, and how far it can move."""

from imharness.images import Certification, DefenseInfo, hookimpl
from imharness_iqa.certifications.rs import Rs
from imharness_iqa.smoothing import MedianSmoothing


class Ms(MedianSmoothing):
    """Median smoothing: an interval that holds the score of every image within a radius."""

    info = DefenseInfo(
        id="harness/ms", version="1", group="certified", differentiable=False, random=True, paper="chiang2020"
    )

    def noisy(self) -> Certification:
        """Return the noisy pass, which randomised smoothing shares."""
        return Rs(sigma=self.sigma, selection=self.selection, samples=self.samples, votes=self.votes)


@hookimpl
def components() -> list[Certification]:
    return [Ms()]

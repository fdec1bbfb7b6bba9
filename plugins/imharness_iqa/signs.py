"""Whether scores of attacked images move as attacks move them, within a range that fits them."""

import numpy as np
import numpy.typing as npt

FEWEST, MOST_WORSE = 5, 0.75
"""From how many attacked scores on, and from which share of them that are worse than the clean ones, a metric is named:
the attacks of the tables raise scores."""
LEAST_SPREAD, FEWEST_SPREAD = 0.05, 10
"""The least share of a range over which scores of at least so many images are spread, attacked and clean together: of
five photographs of Kodak's, clean ones alone lie closer in 1 of 100 draws, of ten in none of 900."""


def said_of_worse(metric: str, gains: npt.NDArray[np.floating], question: str) -> str:
    """Return a sentence that ends with a `question` if most gains ``(n,)`` of attacks are losses; else "".

    A gain is a change of the score by an attack, positive towards better quality.
    """
    worse = int((gains < 0).sum())
    if worse < max(FEWEST, MOST_WORSE * np.count_nonzero(gains)):
        return ""
    return (
        f"by {metric} {worse} of {len(gains)} attacked images are worse than before the attack, which usually raises "
        f"scores; {question}"
    )


def said_of_spread(metric: str, scores: npt.NDArray[np.floating], span: tuple[float, float], images: int) -> str:
    """Return a sentence if scores ``(n,)`` of so many images use hardly any of a range; else ""."""
    used = float(np.ptp(scores)) / abs(span[1] - span[0])
    if images < FEWEST_SPREAD or not used < LEAST_SPREAD:
        return ""
    return (
        f"all scores by {metric} lie within {used:.1%} of its range, {min(span):g} to {max(span):g}, and D is a share "
        "of the range, so that every attack looks weak; is the range that of these scores?"
    )

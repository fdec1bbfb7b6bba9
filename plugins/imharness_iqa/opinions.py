"""Whether scores of a metric follow opinions of people, or follow them the other way round."""

import numpy as np
import numpy.typing as npt

from imharness.leaderboard import spearman_rows

FEWEST, REVERSED = 10, -0.5
"""From how many images on, and below which rank correlation, opinions are taken for reversed: no metric orders images
that much against people."""


def said_of_opinions(metric: str, dataset: str, better: npt.NDArray[np.floating], mos: npt.NDArray[np.floating]) -> str:
    """Return a sentence if scores ``(n,)``, a higher one of which is better, fall as opinions rise; else "".

    `mos`: opinions ``(n,)``, NaN where nobody was asked.
    """
    judged = np.isfinite(mos) & np.isfinite(better)
    rho = float(spearman_rows(better[judged][None], mos[judged])[0]) if judged.sum() >= FEWEST else 0.0
    if np.isnan(rho) or rho > REVERSED:
        return ""
    return (
        f"opinions of {dataset} rise as the quality by {metric} falls (SROCC {rho:.2f}): a higher mos must mean a "
        "better image; where people rated how much worse an image is (DMOS), change the sign"
    )

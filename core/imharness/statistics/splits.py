"""Which entries do significantly worse on a secret split of the images than on the public images.

An entry that recognises public images is better than no defense on these alone. Both advantages belong to the same
unit, so the test is paired: Wilcoxon's one-sided signed-rank test, over clusters if units have them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from imharness.statistics.clusters import clusters_greater
from imharness.statistics.wilcoxon import adjust

Floats = npt.NDArray[np.float64]
MARGIN = 0.1
"""The share of its advantage that an entry may lose: no two sets of images are equally hard."""


def loses_advantage(
    public: Floats, secret: Floats, clusters: npt.ArrayLike | None = None, nearest: float = 0.0
) -> Floats:
    """Return Bonferroni-corrected p-values ``(k,)``: a small one says that an entry loses more than `MARGIN`.

    `public`, `secret`: the advantage of each entry over no defense ``(k, n)``, more is better, NaN where not measured.
    `clusters`: the name of each unit's cluster ``(n,)``. `nearest`: how near two losses are that may be equal. NaN if
    nothing can be tested: no unit has both, none differs, or there are too few clusters.
    """
    lost = public - MARGIN * np.abs(public) - secret
    names = None if clusters is None else np.asarray(clusters)
    p = np.full(len(lost), np.nan)
    for i, finite in enumerate(~np.isnan(lost)):
        if finite.any():
            p[i] = clusters_greater(lost[i, finite], None if names is None else names[finite], nearest)[0]
    return adjust(p)

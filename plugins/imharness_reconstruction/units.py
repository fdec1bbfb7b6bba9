"""What counts once: a participant's update, a photograph where several images are made of one, else each image.

All images of a participant are rebuilt from one update, with one draw of the defense: they converge together or not at
all, and are about equally close.
"""

from collections.abc import Sequence

import numpy as np

from imharness.gradients import ALONE
from imharness.leaderboard import Blocks


def of_source(scores: Blocks, shared: str = ALONE) -> dict[str, str]:
    """Return the fields of a `Column` that say what images belong to; none where each image counts alone.

    `shared`: what participants share, in words.
    """
    alone = all((units == source).all() for units, source in zip(scores.units, scores.about["source"], strict=True))
    return {} if alone else {"cluster": "source", "cluster_unit": "photograph" if shared == ALONE else "participant"}


def repeated(sources: np.ndarray) -> np.ndarray | None:
    """Return the sources of images as clusters, or None where each has its own, so that images are independent."""
    return sources if len(np.unique(sources.astype(str))) < len(sources) else None


def joined(sources: Sequence[str], images: int) -> list[str]:
    """Return the sources of images of which so many successive ones share an update, those that hang together as one.

    The first of them stands for all.
    """
    parent = {source: source for source in sources}

    def first(source: str) -> str:
        while parent[source] != source:
            source = parent[source]
        return source

    for i, source in enumerate(sources):
        parent[first(source)] = first(sources[i // images * images])
    return [first(source) for source in sources]

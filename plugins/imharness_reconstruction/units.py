"""The clusters of private images that intervals resample together.

All images of a participant are rebuilt from one update, with one draw of the defense: they converge together or not at
all, and are about equally close. So a participant is one cluster. Images that were cut from one photograph are one
cluster, too. All other images count alone.
"""

from collections.abc import Sequence

import numpy as np

from imharness.gradients import ALONE
from imharness.leaderboard import Blocks


def of_source(scores: Blocks, shared: str = ALONE) -> dict[str, str]:
    """Return the fields of a `Column` that name the clusters of its images; none where each image counts alone.

    `shared`: what participants share, in words, as `ALONE`.
    """
    alone = all((units == source).all() for units, source in zip(scores.units, scores.about["source"], strict=True))
    return {} if alone else {"cluster": "source", "cluster_unit": "photograph" if shared == ALONE else "participant"}


def repeated(sources: np.ndarray) -> np.ndarray | None:
    """Return the clusters of images, which are their sources, or None if every image has a source of its own."""
    return sources if len(np.unique(sources.astype(str))) < len(sources) else None


def joined(sources: Sequence[str], images: int) -> list[str]:
    """Return the cluster of each image, named by the source of the first image in it.

    Images are in one cluster if they have one source or share an update, or if a chain of such images connects them.

    Args:
        sources: the source of each image, such as a photograph.
        images: the number of successive images that share an update.
    """
    parent = {source: source for source in sources}  # from each source to another of its cluster; the first to itself

    def first(source: str) -> str:
        while parent[source] != source:
            source = parent[source]
        return source

    for i, source in enumerate(sources):
        parent[first(source)] = first(sources[i // images * images])
    return [first(source) for source in sources]

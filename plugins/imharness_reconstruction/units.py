"""What counts once: a photograph where several images are made of one, else each image alone."""

import numpy as np

from imharness.leaderboard import Blocks


def of_source(scores: Blocks) -> dict[str, str]:
    """Return the fields of a `Column` that say of what images are made; none where each image has its own source."""
    alone = all((units == source).all() for units, source in zip(scores.units, scores.about["source"], strict=True))
    return {} if alone else {"cluster": "source", "cluster_unit": "photograph"}


def repeated(sources: np.ndarray) -> np.ndarray | None:
    """Return the sources of images as clusters, or None where each has its own, so that images are independent."""
    return sources if len(np.unique(sources.astype(str))) < len(sources) else None

"""The front of two numbers: which entries no other beats in both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def front(first: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which of ``(n,)`` points no other beats in one of two numbers without losing in the other; more is better.

    A point with NaN is on no front and beats no other.
    """
    points = np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)])
    finite = np.asarray(np.isfinite(points[0]) & np.isfinite(points[1]))
    pairs = points[:, :, None], points[:, None, :]
    beats = np.greater_equal(*pairs).all(axis=0) & np.greater(*pairs).any(axis=0)
    beaten = (beats & finite[:, None]).any(axis=0)
    return np.asarray(finite & ~beaten)

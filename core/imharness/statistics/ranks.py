"""The front of two numbers: which entries no other beats in both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def front(
    first: npt.ArrayLike, second: npt.ArrayLike, over: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.bool_]:
    """Return which of ``(n,)`` points no other beats in one of two numbers without losing in the other; more is better.

    `over`: how far point i is ahead of point j in the first number, ``over[i, j]``, where that is not the difference,
    as for means over what both have. A point with NaN is on no front and beats no other.
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    finite = np.asarray(np.isfinite(x) & np.isfinite(y))
    ahead = np.stack([x[:, None] - x if over is None else over, y[:, None] - y])
    beats = (ahead >= 0).all(axis=0) & (ahead > 0).any(axis=0)
    beaten = (beats & finite[:, None]).any(axis=0)
    return np.asarray(finite & ~beaten)

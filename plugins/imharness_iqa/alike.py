"""Finds images that were made from one photograph, such as distorted versions of it, by their thumbnails."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy
import torch
import torch.nn.functional as F

SIDE = 16
"""The side of the grey thumbnails, px."""
ALIKE = 0.97
"""The least correlation of two thumbnails that count as one photograph: blur, noise and compression of usual strength
keep it, and two photographs of the same place at the same time may have it, too."""
FLAT = 1 / 255
"""Thumbnails with a smaller standard deviation are alike to none."""
AT_ONCE = 512


def thumbnails(images: Iterable[torch.Tensor]) -> np.ndarray:
    """Return grey thumbnails of images ``(1, 3, H, W)`` in [0, 1], float32 ``(n, SIDE * SIDE)``."""
    small = [F.interpolate(x.mean(dim=1, keepdim=True), (SIDE, SIDE), mode="area").flatten() for x in images]
    return torch.stack(small).numpy().astype(np.float32)


def groups(small: np.ndarray) -> np.ndarray:
    """Return the number of the group of each thumbnail ``(n,)``: those that a chain of alike ones joins."""
    centred = small - small.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.where(size >= FLAT * SIDE, centred / np.maximum(size, 1e-9), 0.0)
    blocks = range(0, len(unit), AT_ONCE)
    alike = scipy.sparse.vstack([scipy.sparse.csr_matrix(unit[i : i + AT_ONCE] @ unit.T >= ALIKE) for i in blocks])
    return np.asarray(scipy.sparse.csgraph.connected_components(alike, directed=False)[1])

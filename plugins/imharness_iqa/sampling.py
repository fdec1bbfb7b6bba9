"""Draws subsets of a data set with its variety: from clusters by spatial information, colourfulness and opinion score.

Guardians of Image Quality, appendix A.3.1; the two features as in KonIQ-10k (Hosu et al., IEEE TIP 2020).
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from imharness.data import Images, derive_seed
from imharness_iqa.natural_statistics import luma
from imharness_vision.constants import constant

CLUSTERS = 10


def spatial_information(images: Images) -> torch.Tensor:
    """Return ``(N,)``: standard deviation of the Sobel magnitude of the luma, in grey levels (ITU-T P.910)."""
    kernel = constant(((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0)), images)
    both = torch.stack([kernel, kernel.T])[:, None]
    magnitude = torch.linalg.vector_norm(torch.nn.functional.conv2d(255 * luma(images), both), dim=1)
    return magnitude.flatten(1).std(dim=1, unbiased=False)


def colourfulness(images: Images) -> torch.Tensor:
    """Return ``(N,)``, in grey levels: Hasler & Suesstrunk, "Measuring Colourfulness in Natural Images" (2003)."""
    red, green, blue = (255 * images).unbind(dim=1)
    opponents = torch.stack([red - green, (red + green) / 2 - blue], dim=1).flatten(2)
    deviation, mean = (getattr(opponents, name)(dim=2) for name in ("std", "mean"))
    return torch.linalg.vector_norm(deviation, dim=1) + 0.3 * torch.linalg.vector_norm(mean, dim=1)


def clustered(features: np.ndarray, per_cluster: int, draw: int) -> np.ndarray:
    """Return positions, sorted: `per_cluster` images drawn from each of ten clusters of ``(N, F)`` features.

    The features are standardised. A smaller cluster is taken whole; if there are fewer images than clusters, all are.
    """
    if len(features) <= CLUSTERS:
        return np.arange(len(features))
    cluster = clusters_of(features)
    rng = np.random.default_rng(derive_seed("subset", draw))
    chosen = [rng.permutation(np.flatnonzero(cluster == c))[:per_cluster] for c in range(CLUSTERS)]
    return np.sort(np.concatenate(chosen))


def clusters_of(features: np.ndarray) -> np.ndarray:
    """Return the cluster ``(N,)``, 0 to 9, of ``(N, F)`` features, which are standardised; N is more than ten."""
    from sklearn.cluster import KMeans

    spread = features.std(axis=0)
    points = ((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
    return KMeans(n_clusters=CLUSTERS, n_init=10, random_state=0).fit_predict(points)


def disjoint(cluster: np.ndarray, per_cluster: int, draws: int) -> list[np.ndarray]:
    """Return the sorted positions of the images of up to `draws` subsets that share no image.

    `cluster` ``(N,)``: the cluster of each image. All subsets have the same number of images of a cluster:
    `per_cluster`, or fewer where the cluster has too few for all subsets. The number of subsets is at most N divided by
    the size of a full subset.
    """
    count = max(1, min(draws, len(cluster) // (per_cluster * len(np.unique(cluster)))))
    rng = np.random.default_rng(derive_seed("disjoint subsets"))
    cluster_draws = []
    for members in (rng.permutation(np.flatnonzero(cluster == c)) for c in np.unique(cluster)):
        size = min(per_cluster, len(members) // count)
        cluster_draws.append(members[: size * count].reshape(count, size))
    return list(np.sort(np.concatenate(cluster_draws, axis=1), axis=1))


def spread_over(groups: Sequence[str], names: Sequence[str], count: int) -> list[int]:
    """Return the sorted positions of `count` of the images, or of all: one of each group in turn.

    `groups`: the group of each image, such as its photograph. Hashes of names decide which of a group come first, so
    that the choice does not depend on the order of images.
    """
    order = sorted(range(len(names)), key=lambda i: _hash(names[i]))
    turn, seen = {}, dict[str, int]()  # position -> its number in its group, from 0; group -> the last number
    for i in order:
        turn[i] = seen[groups[i]] = seen.get(groups[i], -1) + 1
    return sorted(sorted(order, key=lambda i: (turn[i], _hash(groups[i])))[:count])


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()

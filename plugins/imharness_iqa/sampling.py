"""Subsets of a data set that keep its spread: clusters of spatial information, colourfulness and opinion score.

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
    """Return positions, sorted, of up to `draws` subsets that share no image and have equally many of each cluster.

    A subset has `per_cluster` images of a cluster, or fewer where the cluster is too small to give that many to each.
    There are at most as many subsets as hold `per_cluster` images of every cluster on average.
    """
    count = max(1, min(draws, len(cluster) // (per_cluster * len(np.unique(cluster)))))
    rng = np.random.default_rng(derive_seed("disjoint subsets"))
    cluster_draws = []
    for members in (rng.permutation(np.flatnonzero(cluster == c)) for c in np.unique(cluster)):
        size = min(per_cluster, len(members) // count)
        cluster_draws.append(members[: size * count].reshape(count, size))
    return list(np.sort(np.concatenate(cluster_draws, axis=1), axis=1))


def spread_over(groups: Sequence[str], names: Sequence[str], count: int) -> list[int]:
    """Return `count` sorted positions, or all: equally many of each group while it lasts, chosen by hashes of names."""
    order = sorted(range(len(names)), key=lambda i: _hash(names[i]))
    turn, seen = {}, dict[str, int]()
    for i in order:
        turn[i] = seen[groups[i]] = seen.get(groups[i], -1) + 1
    return sorted(sorted(order, key=lambda i: (turn[i], _hash(groups[i])))[:count])


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()

"""The Frechet distance of two Gaussians fitted to features, without a matrix square root.

Heusel et al., "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium" (NeurIPS 2017),
equation 6: |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)). The trace of the root is the sum of the square roots of the
eigenvalues of S1 S2. They are computed in one of two ways:

- If the two sets of features have fewer rows than dimensions in the mean (n + m < 2 d), no covariance is formed:
  S1 = A^T A and S2 = B^T B for centred rows, so the eigenvalues are the squared singular values of A B^T.
- Otherwise SciPy turns S2 S1 v = w v into a symmetric problem by a Cholesky factor of S1 (``eigh`` with ``type=2``). If
  S1 is singular, it has none; then S1 = F F^T with F from its eigenvectors, and F^T S2 F has the same eigenvalues.

pytorch-fid, whose network and weights the metric has, takes the root itself: the same number, at least seven times as
slowly (`benchmarks/frechet.py`), and only with an older SciPy.
"""

import numpy as np
import scipy

Array = np.ndarray


def frechet_distance(features: Array, reference: Array) -> float:
    """Return the distance between Gaussians fitted to float features ``(n, d)`` and ``(m, d)``, n and m at least 2."""
    if min(len(features), len(reference)) < 2 or features.shape[1] != reference.shape[1]:
        raise ValueError(f"expected features (n, d) with n >= 2 and one d, got {features.shape} and {reference.shape}")
    a, b = (_centred(np.asarray(x, dtype=np.float64)) for x in (features, reference))
    means = np.square(features.mean(axis=0, dtype=np.float64) - reference.mean(axis=0, dtype=np.float64)).sum()
    few = len(a) + len(b) < 2 * a.shape[1]
    cross = _few_rows(a, b) if few else _many_rows(a, b)
    return float(max(0.0, means + np.square(a).sum() + np.square(b).sum() - 2 * cross))


def _centred(x: Array) -> Array:
    """Return rows A for which A^T A is the unbiased covariance."""
    return (x - x.mean(axis=0)) / np.sqrt(len(x) - 1)


def _few_rows(a: Array, b: Array) -> float:
    """Return the nuclear norm of A B^T."""
    return float(scipy.linalg.svdvals(a @ b.T).sum())


def _many_rows(a: Array, b: Array) -> float:
    return trace_of_root(a.T @ a, b.T @ b)


def trace_of_root(first: Array, second: Array) -> float:
    """Return tr((S1 S2)^(1/2)) of two covariances ``(d, d)``, singular or not."""
    try:
        values = scipy.linalg.eigh(second, first, type=2, eigvals_only=True, check_finite=False)
    except np.linalg.LinAlgError:
        squares, vectors = scipy.linalg.eigh(first)
        factor = vectors * np.sqrt(squares.clip(min=0))
        values = scipy.linalg.eigvalsh(factor.T @ second @ factor)
    return float(np.sqrt(values.clip(min=0)).sum())

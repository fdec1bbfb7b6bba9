"""How far intervals over splits miss their coverage if splits share reference models: a simulation.

Usage: ``python -m benchmarks.shared_references [POOLS] [SPLITS]``. With 40 pools of 16 splits each, the default, it
takes two minutes on a GPU.

A *pool* is 10,000 rows, drawn from noise around 100 means; a tenth of all rows has a random label. For each pool 64
reference networks and some target networks are trained, each on a half of the pool's rows, once without and once with
label smoothing. A *split* is one target network: online LiRA attacks it with the references of its pool, which all
splits of the pool share.

For each measure (balanced accuracy, TPR at 1 % FPR) and for its values without smoothing, with smoothing, and their
difference, one line is printed:

- the mean over all splits;
- the intraclass correlation, with its 95 % interval: the share of the variance that lies between pools;
- the coverage of Student's t, which is the share of 4,000 intervals that hold the mean, over 16 splits of 1, 2, 3, 4
  and 16 pools;
- the coverage of the leaderboard's intervals, which add the variance of pools to that of splits
  (`imharness.leaderboard.nested_interval`), over 16 splits of 3 and of 4 pools.
"""

import math
import sys

import numpy as np
import scipy
import torch
import torch.nn.functional as F

from imharness.cli import console
from imharness.leaderboard import nested_interval, t_interval

ROWS, WIDTH, CLASSES, UNITS = 60_000, 64, 100, 256
"""Rows in all, their features, their classes, and the hidden units of a network."""
POOL, REFERENCES, EPOCHS, BATCH = 10_000, 64, 40, 250
SMOOTHING = 0.1
SHAPES = ((16,), (8, 8), (6, 5, 5), (4, 4, 4, 4), (1,) * 16)
"""For each interval, how many splits it takes from each pool."""
NESTED_SHAPES = slice(2, 4)
"""The shapes for which the coverage of the leaderboard's intervals is printed."""
DRAWS = 4000
"""How many intervals are drawn for each shape."""


def main(pools: int = 40, splits: int = 16) -> None:
    """Simulate the pools, and print a line for each measure and kind of value."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = torch.Generator(device).manual_seed(0)
    labels = torch.randint(CLASSES, (ROWS,), device=device, generator=rng)
    means = 0.45 * torch.randn(CLASSES, WIDTH, device=device, generator=rng)
    features = means[labels] + torch.randn(ROWS, WIDTH, device=device, generator=rng)
    other = torch.randint(CLASSES, (ROWS,), device=device, generator=rng)
    labels = torch.where(torch.rand(ROWS, device=device, generator=rng) < 0.1, other, labels)
    results = np.stack([_pool(features, labels, number, splits) for number in range(pools)])  # (pools, 2, splits, 2)
    for index, name in enumerate(("balanced accuracy", "TPR at 1% FPR")):
        plain, smoothed = results[:, 0, :, index], results[:, 1, :, index]  # (pools, splits)
        for what, values in (("none", plain), ("smoothing", smoothed), ("difference", plain - smoothed)):
            correlation, low, high = _correlation(values)
            coverages = [_coverage(values, shape) for shape in SHAPES if len(shape) <= pools]
            hits = ", ".join(f"{student:.3f}" for student, _ in coverages)
            leaderboard = ", ".join(f"{nested:.3f}" for _, nested in coverages[NESTED_SHAPES])
            text = (
                f"{values.mean():.4f}, {correlation:.3f} [{low:.3f}, {high:.3f}]; coverage {hits}; leaderboard: "
                f"{leaderboard}"
            )
            console.say(f"{name}, {what}: {text}")


def _pool(features: torch.Tensor, labels: torch.Tensor, number: int, splits: int) -> np.ndarray:
    """Return balanced accuracy and TPR at 1 % FPR of splits without and with smoothing, ``(2, splits, 2)``."""
    rng = torch.Generator(features.device).manual_seed(number)
    rows = torch.randperm(len(labels), device=features.device, generator=rng)[:POOL]
    count = REFERENCES + splits
    member = torch.rand(count, POOL, device=features.device, generator=rng).argsort(dim=1) < POOL // 2
    inside = torch.stack([rows[mask] for mask in member])
    results = []
    for smoothing in (0.0, SMOOTHING):
        weights = _trained(features, labels, inside, smoothing, number)
        pool_features, pool_labels = features[rows], labels[rows]
        odds = torch.stack([_log_odds(weights, k, pool_features, pool_labels) for k in range(count)])  # (count, POOL)
        results.append([_attacked(odds, member, k) for k in range(REFERENCES, count)])
    return np.array(results)


def _log_odds(weights: list[torch.Tensor], model: int, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the log odds of the labels ``(n,)`` by one of the models whose weights `_trained` returned."""
    with torch.no_grad():
        of_model = [tensor[model : model + 1] for tensor in weights]
        probabilities = _logits(of_model, features[None])[0].softmax(1)  # (n, CLASSES)
    return probabilities.gather(1, labels[:, None])[:, 0].clamp(1e-6, 1 - 1e-6).logit()


def _attacked(odds: torch.Tensor, member: torch.Tensor, target: int) -> tuple[float, float]:
    """Return balanced accuracy and TPR at 1 % FPR of online LiRA (Carlini et al., IEEE S&P 2022) on one model.

    It has one variance for all rows of which references are trained on, and one for all others. `odds` are the log
    odds of the labels, `member` says which rows a model was trained on, both ``(models, POOL)``, the references first.
    """
    reference_odds, trained_on = odds[:REFERENCES], member[:REFERENCES].float()
    score = torch.zeros_like(odds[target])
    for weight, sign in ((trained_on, 1), (1 - trained_on, -1)):
        mean = (reference_odds * weight).sum(dim=0) / weight.sum(dim=0)
        variance = ((reference_odds - mean).square() * weight).sum() / weight.sum()
        score -= sign * ((odds[target] - mean).square() / variance + variance.log()) / 2
    inside, outside = score[member[target]], score[~member[target]]
    threshold = outside.sort().values[-(len(outside) // 100)]
    right = ((inside >= 0).float().mean() + (outside < 0).float().mean()) / 2
    return float(right), float((inside > threshold).float().mean())


def _trained(
    features: torch.Tensor, labels: torch.Tensor, inside: torch.Tensor, smoothing: float, seed: int
) -> list[torch.Tensor]:
    """Return the weights of k networks with one hidden layer, which are trained all at once.

    `inside` are the positions of the rows of each network ``(k, n)``. The four tensors are weights and biases of the
    hidden layer and of the output layer; their first dimension is k.
    """
    count, device = len(inside), features.device
    rng = torch.Generator(device).manual_seed(seed)
    weights = [
        torch.randn(count, WIDTH, UNITS, device=device, generator=rng) * (2 / WIDTH) ** 0.5,
        torch.zeros(count, 1, UNITS, device=device),
        torch.randn(count, UNITS, CLASSES, device=device, generator=rng) / UNITS**0.5,
        torch.zeros(count, 1, CLASSES, device=device),
    ]
    optimiser = torch.optim.SGD([tensor.requires_grad_() for tensor in weights], 0.1, 0.9, weight_decay=5e-4)
    for epoch in range(EPOCHS):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 + math.cos(math.pi * epoch / EPOCHS))
        orders = torch.rand(inside.shape, device=device, generator=rng).argsort(dim=1)
        for batch in orders.split(BATCH, dim=1):
            rows = inside.gather(1, batch)
            logits = _logits(weights, features[rows])
            wrong = F.cross_entropy(
                logits.flatten(0, 1), labels[rows].flatten(), label_smoothing=smoothing, reduction="sum"
            )
            optimiser.zero_grad()
            (wrong / batch.shape[1]).backward()
            optimiser.step()
    return weights


def _logits(weights: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(weights[3], torch.baddbmm(weights[1], x, weights[0]).relu(), weights[2])


def _correlation(values: np.ndarray) -> tuple[float, float, float]:
    """Return the intraclass correlation of values ``(pools, splits)`` and its 95 % interval (Shrout & Fleiss, 1979)."""
    pools, splits = values.shape
    ratio = splits * values.mean(axis=1).var(ddof=1) / values.var(axis=1, ddof=1).mean()
    ends = scipy.stats.f.ppf([0.975, 0.025], pools - 1, pools * (splits - 1))
    estimate, low, high = ((f - 1) / (f + splits - 1) for f in (ratio, *(ratio / ends)))
    return float(estimate), float(low), float(high)


def _coverage(values: np.ndarray, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return the share of intervals that hold the mean of all values: of Student's, and of those with nested variance.

    `values` are ``(pools, splits)``. For each interval, as many pools as `shape` has numbers are drawn, and from each
    of them so many splits, or all if it has fewer.
    """
    rng, truth, hits = np.random.default_rng(0), values.mean(), np.zeros(2)
    counts = [min(count, values.shape[1]) for count in shape]
    group = np.repeat(np.arange(len(shape)), counts)
    for _ in range(DRAWS):
        pools = rng.choice(len(values), len(shape), replace=False)
        of_each_pool = [
            rng.choice(values[pool], count, replace=False) for pool, count in zip(pools, counts, strict=True)
        ]
        drawn = np.concatenate(of_each_pool)
        intervals = (t_interval(drawn), nested_interval(drawn, group))
        hits += [interval.low <= truth <= interval.high for interval in intervals]
    return tuple((hits / DRAWS).tolist())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

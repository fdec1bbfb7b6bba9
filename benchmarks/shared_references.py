"""What splits that share reference models cost: simulated coverage of intervals over splits.

Usage: ``python -m benchmarks.shared_references [POOLS] [SPLITS]``. With 40 pools of 16 splits each, the default, it
takes two minutes on a GPU. Small networks learn 5,000 of a pool's 10,000 rows of noise around 100 means, of which a
tenth has a random label; each is trained without and with label smoothing. A split is a network, attacked by online
LiRA with the pool's 64 references. Printed are the mean, how much of the variance pools make up (the intraclass
correlation, with its 95 % interval), and how many of 4,000 intervals by Student's t over 16 splits hold the mean of
all: 16 splits of one pool, of two, three and four pools, and of 16 pools. The same follows for the intervals of the
leaderboard, which add the variance of pools to that of splits (`imharness.leaderboard.nested_interval`), of three and
four pools.
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
POOL, REFERENCES, EPOCHS, BATCH = 10_000, 64, 40, 250
SMOOTHING = 0.1
SHAPES = ((16,), (8, 8), (6, 5, 5), (4, 4, 4, 4), (1,) * 16)
"""The numbers of splits in each pool."""
DRAWS = 4000


def main(pools: int = 40, splits: int = 16) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = torch.Generator(device).manual_seed(0)
    labels = torch.randint(CLASSES, (ROWS,), device=device, generator=rng)
    means = 0.45 * torch.randn(CLASSES, WIDTH, device=device, generator=rng)
    features = means[labels] + torch.randn(ROWS, WIDTH, device=device, generator=rng)
    other = torch.randint(CLASSES, (ROWS,), device=device, generator=rng)
    labels = torch.where(torch.rand(ROWS, device=device, generator=rng) < 0.1, other, labels)
    results = np.stack([_pool(features, labels, number, splits) for number in range(pools)])  # (pools, 2, splits, 2)
    for index, name in enumerate(("balanced accuracy", "TPR at 1% FPR")):
        plain, smoothed = results[:, 0, :, index], results[:, 1, :, index]
        for what, values in (("none", plain), ("smoothing", smoothed), ("difference", plain - smoothed)):
            correlation, low, high = _correlation(values)
            results = [_coverage(values, shape) for shape in SHAPES if len(shape) <= pools]
            hits = ", ".join(f"{student:.3f}" for student, _ in results)
            leaderboard = ", ".join(f"{nested:.3f}" for _, nested in results[2:4])
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
        with torch.no_grad():
            alone = [[tensor[k : k + 1] for tensor in weights] for k in range(count)]
            sure = [_logits(model_weights, features[rows][None])[0].softmax(1) for model_weights in alone]
        odds = torch.stack(
            [
                probabilities.gather(1, labels[rows][:, None])[:, 0].clamp(1e-6, 1 - 1e-6).logit()
                for probabilities in sure
            ]
        )
        results.append([_attacked(odds, member, k) for k in range(REFERENCES, count)])
    return np.array(results)


def _attacked(odds: torch.Tensor, member: torch.Tensor, target: int) -> tuple[float, float]:
    """Return balanced accuracy and TPR at 1 % FPR of online LiRA with one variance for all rows of a kind."""
    reference_odds, of = odds[:REFERENCES], member[:REFERENCES].float()
    score = torch.zeros_like(odds[target])
    for kind, sign in ((of, 1), (1 - of, -1)):
        mean = (reference_odds * kind).sum(dim=0) / kind.sum(dim=0)
        variance = ((reference_odds - mean).square() * kind).sum() / kind.sum()
        score -= sign * ((odds[target] - mean).square() / variance + variance.log()) / 2
    inside, outside = score[member[target]], score[~member[target]]
    threshold = outside.sort().values[-(len(outside) // 100)]
    right = ((inside >= 0).float().mean() + (outside < 0).float().mean()) / 2
    return float(right), float((inside > threshold).float().mean())


def _trained(
    features: torch.Tensor, labels: torch.Tensor, inside: torch.Tensor, smoothing: float, seed: int
) -> list[torch.Tensor]:
    """Return the weights of networks with one hidden layer, each trained on its rows ``(k, n)``, all at once."""
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
    """Return how many intervals hold the mean of all: Student's, and those with a variance of pools."""
    rng, truth, hits = np.random.default_rng(0), values.mean(), np.zeros(2)
    group = np.repeat(np.arange(len(shape)), shape)
    for _ in range(DRAWS):
        pools = rng.choice(len(values), len(shape), replace=False)
        drawn = np.concatenate(
            [rng.choice(values[p], min(k, values.shape[1]), replace=False) for p, k in zip(pools, shape, strict=True)]
        )
        intervals = (t_interval(drawn), nested_interval(drawn, group))
        hits += [interval.low <= truth <= interval.high for interval in intervals]
    return tuple((hits / DRAWS).tolist())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Statistics, and membership from the answers of models."""

import copy
import functools
import itertools

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.peers.work import Contest, Work
from imharness.contracts.randomness import generator, seeded_init
from imharness.membership import References
from imharness.statistics.bootstrap import resampled
from imharness.statistics.mean_spearman import mean_spearman
from imharness.statistics.wilcoxon import adjust, wilcoxon_greater
from imharness.statistics.win_rates import win_rates
from imharness_membership.accounting import epsilon_of
from imharness_membership.defenses.dp_sgd import clipped_sum
from imharness_membership.evaluators.lira import Lira
from imharness_membership.evaluators.rmia import Rmia
from imharness_membership.thresholds import class_thresholds


def _lira(models: int, rows: int) -> Contest:
    rng = np.random.default_rng(0)
    odds = rng.normal(size=(models, rows)).astype(np.float32)
    inside = rng.random((models, rows)).argsort(axis=0) < models // 2
    observed = rng.normal(size=rows).astype(np.float32)

    def plain() -> np.ndarray:
        densities = []
        for mask in (inside, ~inside):
            count = mask.sum(axis=0)
            mean = (odds * mask).sum(axis=0) / count
            variance = np.maximum((((odds - mean) * mask) ** 2).sum(axis=0) / (count - 1), 1e-6)
            densities.append(-((observed - mean) ** 2 / variance + np.log(variance)) / 2)
        return densities[0] - densities[1]

    nothing, seen = torch.zeros(models, 1), torch.from_numpy(observed)
    references = References(torch.from_numpy(odds), torch.from_numpy(inside), nothing, nothing[:, 0])
    lira = Lira(global_variance=False)
    return Contest(lambda: lira.statistic(seen, seen, references, models), {"plain numpy": plain}, 1e-5)


def _thresholds(rows: int, classes: int) -> Contest:
    from sklearn.metrics import roc_curve

    rng = np.random.default_rng(0)
    values, member = rng.normal(size=rows).astype(np.float32), rng.random(rows) < 0.5
    labels = rng.integers(0, classes, rows)

    def by_curve() -> np.ndarray:
        thresholds = []
        for label in range(classes):
            mask = labels == label
            false, true, steps = roc_curve(member[mask], values[mask], drop_intermediate=False)
            thresholds.append(steps[np.argmax(true - false)])
        return np.array(thresholds, dtype=np.float32)

    def advantages(thresholds: np.ndarray) -> np.ndarray:
        predicted = values >= thresholds[labels]
        masks = [labels == label for label in range(classes)]
        return np.array([predicted[c & member].mean() - predicted[c & ~member].mean() for c in masks])

    def by_sums() -> np.ndarray:
        order = np.lexsort((-values, labels))
        gains = np.where(member[order], 1, -1)
        thresholds, edges = np.empty(classes, np.float32), np.searchsorted(labels[order], np.arange(classes + 1))
        inside = np.bincount(labels[member], minlength=classes)
        outside = np.bincount(labels[~member], minlength=classes)
        for label, (low, high) in enumerate(itertools.pairwise(edges)):
            steps = np.cumsum(np.where(gains[low:high] > 0, 1 / inside[label], -1 / outside[label]))
            thresholds[label] = values[order[low + np.argmax(steps)]]
        return thresholds

    peers = {"scikit-learn": by_curve, "plain numpy": by_sums}
    return Contest(lambda: class_thresholds(values, member, labels, classes), peers, 1e-9, advantages)


def _rmia(rows: int, models: int) -> Contest:
    rng = np.random.default_rng(0)
    odds, target_odds = (
        rng.normal(size=(models, rows)).astype(np.float32),
        rng.normal(size=(2, rows)).astype(np.float32),
    )
    inside = rng.random((models, rows)).argsort(axis=0) < models // 2
    common = rng.normal(size=(models, rows)).astype(np.float32)
    references = References(*map(torch.from_numpy, (odds, inside, common, common[:, 0])))
    seen, population = map(torch.from_numpy, target_odds)

    def ratios() -> tuple[np.ndarray, np.ndarray]:
        outside = (1 / (1 + np.exp(-odds)) * ~inside).sum(axis=0) / (~inside).sum(axis=0)
        everywhere = (1 / (1 + np.exp(-common))).mean(axis=0)
        ratio, others = (
            1 / (1 + np.exp(-x)) / (0.65 * mean + 0.35)
            for x, mean in zip(target_odds, (outside, everywhere), strict=True)
        )
        return ratio, others

    def plain() -> np.ndarray:
        ratio, others = ratios()
        return np.array([(x >= others).mean() for x in ratio])

    def sorted_once() -> np.ndarray:
        ratio, others = ratios()
        return np.searchsorted(np.sort(others), ratio, side="right") / len(others)

    rmia, peers = Rmia(), {"plain numpy": plain, "numpy, sorted": sorted_once}
    return Contest(lambda: rmia.statistic(seen, population, references, models), peers, 2 / rows)


def _ties() -> Contest:
    from scipy.stats import wilcoxon

    differences = np.random.default_rng(0).normal(0.02, 1, (500, 1000)).round(1)
    differences[differences == 0] = 0.1
    peers = {"scipy, axis": lambda: wilcoxon(differences, alternative="greater", axis=1).pvalue}
    return Contest(lambda: wilcoxon_greater(differences), peers, 1e-12)


def _wilcoxon() -> Contest:
    from scipy.stats import wilcoxon

    differences = np.random.default_rng(0).normal(0.02, 1, (500, 1000))
    peers = {"scipy, axis": lambda: wilcoxon(differences, alternative="greater", axis=1).pvalue}
    return Contest(lambda: wilcoxon_greater(differences), peers, 1e-12)


def _win_matrix() -> Contest:
    from scipy.stats import wilcoxon

    scores = np.random.default_rng(0).normal(size=(30, 300)) + np.linspace(0, 0.5, 30)[:, None]
    first, second = np.nonzero(~np.eye(len(scores), dtype=bool))

    def by_axis() -> np.ndarray:
        p = wilcoxon(scores[first] - scores[second], alternative="greater", axis=1).pvalue
        rate = np.zeros((len(scores),) * 2)
        rate[first, second] = 100 * (p * len(p) < 0.05)
        return rate

    return Contest(lambda: np.nan_to_num(win_rates([scores], higher_wins=True).rate), {"scipy, axis": by_axis}, 0)


def _holm() -> Contest:
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(0).random(20_000) ** 3

    def plain() -> np.ndarray:
        order, adjusted = np.argsort(p), np.empty_like(p)
        adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
        return adjusted

    peers = {"statsmodels": lambda: multipletests(p, method="holm")[1], "plain numpy": plain}
    return Contest(lambda: adjust(p, "holm"), peers, 1e-12)


def _bootstrap() -> Contest:
    from scipy.stats import rankdata

    rng = np.random.default_rng(0)
    labels = rng.normal(size=60)
    scores = labels + rng.normal(size=(12, 60))

    def by_sorting() -> np.ndarray:
        drawn = np.concatenate(list(resampled(60)))
        y = rankdata(labels[drawn], axis=1)
        y -= y.mean(axis=1, keepdims=True)
        total = np.zeros(len(drawn))
        for line in scores:
            x = rankdata(line[drawn], axis=1)
            x -= x.mean(axis=1, keepdims=True)
            total += (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        return np.percentile(total / len(scores), [2.5, 97.5])

    def ours() -> np.ndarray:
        interval = mean_spearman(scores, labels)
        return np.array([interval.low, interval.high])

    return Contest(ours, {"scipy's ranks": by_sorting}, 1e-9)


def _clipped(rows: int) -> Contest:
    from opacus import GradSampleModule

    with seeded_init(generator(0)):
        layers = [torch.nn.Linear(*sizes) for sizes in ((446, 1024), (1024, 256), (256, 30))]
    model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
    private = GradSampleModule(copy.deepcopy(model), loss_reduction="sum")
    features, labels = torch.randn(rows, 446, generator=generator(1)), torch.arange(rows) % 30

    def opacus() -> torch.Tensor:
        private.zero_grad()
        cross_entropy(private(features), labels, reduction="sum").backward()
        single = [weight.grad_sample for weight in private.parameters()]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in single]).norm(dim=0)
        factors = (1 / norms).clamp(max=1)
        return torch.cat([torch.einsum("n,n...->...", factors, g).flatten() for g in single])

    def ours() -> torch.Tensor:
        return torch.cat([g.flatten() for g in clipped_sum(model, features, labels, 1.0).values()])

    return Contest(ours, {"opacus": opacus}, 1e-4)


def _epsilon() -> Contest:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(1.3, 64 / 299, 100)]
    return Contest(lambda: epsilon_of(1.3, 64 / 299, 100, 1e-5), {"opacus": lambda: accountant.get_epsilon(1e-5)}, 0.02)


WORKS = (
    Work("lira-8", "LiRA, 100,000 rows, 8 models", functools.partial(_lira, 8, 100_000)),
    Work("lira-64", "LiRA, 50,000 rows, 64 models", functools.partial(_lira, 64, 50_000)),
    Work("thresholds", "thresholds, 20,000 rows, 100 classes", functools.partial(_thresholds, 20_000, 100)),
    Work("thresholds-small", "thresholds, 5,000 rows, 10 classes", functools.partial(_thresholds, 5_000, 10)),
    Work("rmia", "RMIA, 5,000 rows, 8 models", functools.partial(_rmia, 5_000, 8)),
    Work("wilcoxon-ties", "Wilcoxon with ties, 500 pairs of n = 1000", _ties),
    Work("wilcoxon", "Wilcoxon, 500 pairs of n = 1000", _wilcoxon),
    Work("win-matrix", "win matrix, 30 entries, 300 images", _win_matrix),
    Work("holm", "Holm's correction, 20,000 tests", _holm),
    Work("clipped-sum", "DP-SGD's clipped sum, 64 rows, an MLP of 446-1024-256-30", functools.partial(_clipped, 64)),
    Work("epsilon", "epsilon of 100 steps of DP-SGD", _epsilon),
    Work("bootstrap", "bootstrap of 12 rank correlations, n = 60", _bootstrap),
)

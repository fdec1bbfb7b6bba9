"""Membership evaluators on ten thousand to a million rows, compared with simple numpy loops."""

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import Line
from imharness.data import generator
from imharness.membership import MembershipQuery, References, TrainingData, TrainingPlan
from imharness_membership.defenses.plain_training import PlainTraining
from imharness_membership.evaluators.lira import Lira
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.evaluators.privacy_risk import PrivacyRisk
from imharness_membership.models.mlp import Mlp
from imharness_membership.thresholds import class_thresholds

ROWS, CLASSES, MODELS = (10_000, 100_000, 1_000_000), 100, 8
THRESHOLD_ROWS, THRESHOLD_GOAL = 20_000, 100
LIRA_GOAL, SECONDS_GOAL = 5, 60


def lines() -> list[Line]:
    """Return the speed of thresholds, of LiRA, of a whole query, and of training many networks together."""
    results = [_thresholds(THRESHOLD_ROWS, 1, THRESHOLD_GOAL), *(_thresholds(n, CLASSES, 1) for n in ROWS)]
    return [*results, *(_lira(n) for n in ROWS[:2]), _million(), _together()]


def _took(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _thresholds(n: int, classes: int, goal: float) -> Line:
    rng = np.random.default_rng(0)
    values, member = rng.normal(size=n).astype(np.float32), rng.random(n) < 0.5
    labels = rng.integers(0, classes, n)
    ours = min(_took(lambda: class_thresholds(values, member, labels, classes)) for _ in range(3))
    thresholds: list[float] = []
    loop = _took(lambda: thresholds.extend(_search(values[labels == c], member[labels == c]) for c in range(classes)))
    same = np.array_equal(class_thresholds(values, member, labels, classes), np.array(thresholds, dtype=np.float32))
    what = f"Thresholds, {n:,} rows, {classes} classes: times faster than the published search"
    return Line(
        what, f"{loop / ours:.0f}x, {'equal' if same else 'DIFFERENT'}", f">= {goal:g}x", same and loop >= goal * ours
    )


def _search(values: np.ndarray, member: np.ndarray) -> float:
    """Return the threshold as the published code finds it: every value is tried on all rows."""
    inside, outside = values[member], values[~member]
    best, threshold = -1.0, 0.0
    for candidate in np.concatenate([inside, outside]):
        accuracy = np.sum(inside >= candidate) / len(inside) + np.sum(outside < candidate) / len(outside)
        if accuracy > best:
            best, threshold = accuracy, float(candidate)
    return threshold


def _lira(n: int) -> Line:
    rng = np.random.default_rng(1)
    odds, inside = (
        rng.normal(size=(MODELS, n)).astype(np.float32),
        rng.random((MODELS, n)).argsort(axis=0) < MODELS // 2,
    )
    observed = rng.normal(size=n).astype(np.float32)
    nothing = torch.zeros(MODELS, 1)
    references = References(torch.from_numpy(odds), torch.from_numpy(inside), nothing, nothing[:, 0])
    seen = torch.from_numpy(observed)
    ours = min(_took(lambda: Lira(global_variance=False).statistic(seen, seen, references, MODELS)) for _ in range(3))

    def loop() -> None:
        for i in range(n):
            densities = []
            for mask in (inside[:, i], ~inside[:, i]):
                sample = odds[mask, i]
                variance = max(sample.var(ddof=1), 1e-6)
                densities.append(-((observed[i] - sample.mean()) ** 2 / variance + np.log(variance)) / 2)

    what = f"LiRA, {n:,} rows, {MODELS} reference models: times faster than a loop over rows"
    ratio = _took(loop) / ours
    return Line(what, f"{ratio:.0f}x", f">= {LIRA_GOAL}x", ratio >= LIRA_GOAL)


def _million() -> Line:
    rng = torch.Generator().manual_seed(0)
    n = ROWS[-1]
    outputs = [torch.randn(n, CLASSES, generator=rng).softmax(1) for _ in range(2)]
    labels = [torch.randint(CLASSES, (n,), generator=rng) for _ in range(2)]
    query = MembershipQuery(outputs[0], labels[0], torch.rand(n, generator=rng) < 0.5, outputs[1], labels[1])
    evaluators = [e.build(torch.device("cpu")) for e in (ModifiedEntropy(), PrivacyRisk())]
    took = _took(lambda: [infer(query) for infer in evaluators])
    what = f"Modified entropy and risk scores of {n:,} rows, {CLASSES} classes, and as many shadow rows: seconds"
    return Line(what, f"{took:.1f} s", f"<= {SECONDS_GOAL} s", took <= SECONDS_GOAL)


def _together() -> Line:
    cpu, plan, networks = torch.device("cpu"), TrainingPlan(5, 64, 1e-3), 16
    rng, make = generator(0), Mlp(hidden=(128, 64)).build(torch.device("cpu"))
    x, y = torch.rand(networks, 300, 64, generator=rng), torch.randint(10, (networks, 300), generator=rng)
    data = [TrainingData(x[i], y[i], x[i], y[i]) for i in range(networks)]
    train, train_together = PlainTraining().build(cpu), PlainTraining().build_together(cpu, make((64,), 10, rng))
    train(make((64,), 10, rng), data[0], plan, rng, lambda done, total: None)
    fresh = [[make((64,), 10, generator(i)) for i in range(networks)] for _ in range(2)]
    rngs = [[generator(i) for i in range(networks)] for _ in range(2)]
    quiet = lambda done, total: None  # noqa: E731
    loop = _took(lambda: [train(fresh[0][i], data[i], plan, rngs[0][i], quiet) for i in range(networks)])
    ratio = loop / _took(lambda: train_together(fresh[1], data, plan, rngs[1], quiet))
    what = f"Training {networks} perceptrons 128-64 at once: times faster than one after the other"
    return Line(what, f"{ratio:.1f}x", ">= 1.2x", ratio >= 1.2)

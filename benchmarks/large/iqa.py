"""The image-quality track as large as *Guardians of Image Quality*: 26 defenses, 9 metrics, 14 attacks, 3 strengths.

Every attack goes for the metric alone and, once more, for metric and defense together. Images are one photograph each.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.large.writing import Finished

DEFENSES = ("harness/none", *(f"acme/defense-{d:02d}" for d in range(25)))
METRICS = tuple(f"acme/metric-{m}" for m in range(9))
ATTACKS = tuple(f"acme/attack-{a:02d}" for a in range(14))
STRENGTHS = {"weak": 0.1, "medium": 0.2, "strong": 0.25}
"""Name -> 1 - SSIM of the attacked image."""
DATASET = "acme/photographs"
SHOWN = len(METRICS) * len(ATTACKS) * len(STRENGTHS) * (2 * len(DEFENSES) - 1)
"""Tasks of defended attacked images."""
Rows = dict[str, np.ndarray]


def write(root: Path, rows: int) -> Finished:
    """Fill a store with about so many rows of defended attacked images."""
    study, rng = Finished(root, "harness/iqa"), np.random.default_rng(0)
    n = max(round(rows / SHOWN), 2)
    names = np.array([f"image-{i:06d}" for i in range(n)], dtype=object)
    quality = rng.uniform(1, 5, n)
    for d, defense in enumerate(DEFENSES):
        columns = {
            "name": names,
            "group": [f"group-{d % 5}"] * n,
            "entry": [defense] * n,
            **_distances(rng, 0.02 * d, n),
        }
        study.add("purify", {"dataset": DATASET, "defense": defense}, columns, facts={"ms": 0.1 + d})
    for metric in METRICS:
        _metric(study, rng, names, quality, metric)
    study.close()
    return study


def _metric(study: Finished, rng: np.random.Generator, names: np.ndarray, quality: np.ndarray, metric: str) -> None:
    n, components = len(names), {"dataset": DATASET, "metric": metric}
    score = 20 * quality + rng.normal(0, 8, n)
    facts = {"sign": [1] * n, "lower": [0.0] * n, "upper": [100.0] * n, "labelled": [""] * n, "proxy": [""] * n}
    noise = {name: rng.normal(50, 10, n).astype(np.float32) for name in ("si", "cf")}
    clean = {"name": names, "mos": quality, "photograph": names, **facts, "score": score.astype(np.float32), **noise}
    study.add("clean", components, clean)
    defended = {}
    for d, defense in enumerate(DEFENSES):
        defended[defense] = score + 0.1 * d * rng.normal(0, 1, n)
        columns = {"name": names, "trained": [False] * n, "score": defended[defense].astype(np.float32)}
        study.add("defended", {**components, "defense": defense}, columns)
    for attack in ATTACKS:
        for strength, loss in STRENGTHS.items():
            moved = 40 * loss * rng.random(n)
            for adaptive in (False, True):
                options = {"adaptive": adaptive, "method": attack, "strength": strength}
                drawn = {**options, "samples": 1}
                roles = {**components, "attack": attack}
                if not adaptive:
                    study.add("attack", roles, _attacked(rng, names, score + moved, loss), options=drawn)
                for d, defense in enumerate(DEFENSES[adaptive:], start=int(adaptive)):
                    shift = moved * (1 + 0.5 * adaptive - 0.02 * d) + rng.normal(0, 0.5, n)
                    if adaptive:
                        columns = _attacked(rng, names, score + moved, loss)
                        study.add("attack", {**roles, "defense": defense}, columns, options=drawn)
                    evaluated = {
                        "name": names,
                        "gradient": ["own"] * n,
                        **_scored(rng, defended[defense] + shift, loss),
                    }
                    study.add("evaluate", {**roles, "defense": defense}, evaluated, options=options)


def _attacked(rng: np.random.Generator, names: np.ndarray, score: np.ndarray, loss: float) -> Mapping[str, object]:
    n = len(names)
    kind = {"access": ["white_box"] * n, "norm": ["linf"] * n, "distortion": ["ssim"] * n, "gradient": ["own"] * n}
    return {"name": names, **kind, "queries": [10] * n, **_scored(rng, score, loss)}


def _scored(rng: np.random.Generator, score: np.ndarray, loss: float) -> Rows:
    return {"score": score.astype(np.float32), **_distances(rng, loss, len(score))}


def _distances(rng: np.random.Generator, loss: float, n: int) -> Rows:
    """Return distances to the original around 1 - SSIM of `loss`."""
    wave = rng.random(n, dtype=np.float32)
    return {
        "psnr": 40 - 50 * np.float32(loss) + wave,
        "ssim": 1 - np.float32(loss) * (np.float32(0.9) + np.float32(0.2) * wave),
        "mse": np.float32(0.001) * (1 + wave),
        "linf": np.float32(0.03) * (np.float32(0.9) + np.float32(0.1) * wave),
    }

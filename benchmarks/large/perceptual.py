"""The perceptual track: 20 metrics and forced choices of 10 data sets, a tenth of them attacked."""

from pathlib import Path

import numpy as np

from benchmarks.large.writing import Finished

METRICS = tuple(f"acme/metric-{m:02d}" for m in range(20))
DATASETS = tuple(f"acme/choices-{d}" for d in range(10))
FAMILIES = ("blur", "compression", "noise", "colour", "deblurring", "interpolation")


def write(root: Path, rows: int) -> Finished:
    """Fill a store with about so many rows of distances."""
    study, rng = Finished(root, "harness/perceptual"), np.random.default_rng(0)
    choices = max(round(rows / (2 * len(METRICS) * len(DATASETS))), 20)
    for dataset in DATASETS:
        group, second = np.repeat(np.arange(choices), 2), np.tile([0, 1], choices)
        judge = rng.integers(0, 6, choices) / 5
        names = np.array([f"choice-{g:06d}-{s}" for g, s in zip(group, second, strict=True)], dtype=object)
        references = np.array([f"photograph-{g:06d}" for g in group], dtype=object)
        shared_columns = {
            "name": names,
            "reference": references,
            "photograph": references,
            "family": np.array(FAMILIES, dtype=object)[group % len(FAMILIES)],
            "severity": np.zeros(len(group)),
        }
        answers = {
            "proxy": np.full(len(group), "", dtype=object),
            "group": references,
            "choice": second,
            "judge": judge[group],
            "judges": np.full(len(group), 5),
            "same": np.full(len(group), np.nan),
            "mos": np.full(len(group), np.nan),
        }
        hit = np.arange(len(group)) < len(group) // 10
        for m, metric in enumerate(METRICS):
            nearer = np.where(second == 1, judge[group], 1 - judge[group])
            distance = (1 - nearer + rng.normal(0, 0.3 + 0.02 * m, len(group))).astype(np.float32)
            roles = {"dataset": dataset, "metric": metric}
            study.add("distance", roles, {**shared_columns, **answers, "distance": distance}, facts={"ms": 1.0 + m})
            after = (distance + rng.normal(0.2, 0.1, len(group))).astype(np.float32)
            moved = {
                **shared_columns,
                "before": distance,
                "after": after,
                "linf": np.full(len(group), 0.004, np.float32),
            }
            study.add(
                "attack",
                {**roles, "attack": "acme/attack"},
                {name: column[hit] for name, column in moved.items()},
                options={"radius": 1},
            )
    study.close()
    return study

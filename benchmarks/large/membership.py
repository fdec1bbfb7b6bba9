"""The membership track: 17 defenses, 14 evaluators, 5 splits and two kinds of adversary."""

from pathlib import Path

import numpy as np

from benchmarks.large.writing import Finished

DEFENSES = ("harness/no-defense", *(f"acme/defense-{d:02d}" for d in range(16)))
EVALUATORS = tuple(f"acme/evaluator-{e:02d}" for e in range(14))
SPLITS, CLASSES = 5, 10
PLACE = {"dataset": "acme/rows", "model": "acme/model"}


def write(root: Path, rows: int) -> Finished:
    """Fill a store with about so many rows of scores."""
    study, rng = Finished(root, "harness/membership"), np.random.default_rng(0)
    n = max(round(rows / (len(DEFENSES) * len(EVALUATORS) * SPLITS * 2)), 4 * CLASSES)
    for split in range(SPLITS):
        rows_of = {
            "row": np.arange(n) + split * n // 2,
            "label": rng.integers(0, CLASSES, n),
            "member": np.arange(n) % 2 == 0,
        }
        for d, defense in enumerate(DEFENSES):
            facts = {"train_accuracy": 0.9, "test_accuracy": 0.8 - 0.01 * d, "calibration_error": 0.1}
            study.add(
                "train", {**PLACE, "defense": defense}, rows_of, options={"role": "target", "split": split}, facts=facts
            )
            for evaluator in EVALUATORS:
                for adaptive in (False, True):
                    gain = np.where(rows_of["member"], 0.6 - 0.03 * d, 0.0)
                    score = (rng.normal(-0.3, 1, n) + gain).astype(np.float32)
                    study.add(
                        "evaluate",
                        {**PLACE, "defense": defense, "evaluator": evaluator},
                        {**rows_of, "right": rng.random(n) < 0.8, "score": score},
                        options={"adaptive": adaptive, "split": split},
                    )
    study.close()
    return study

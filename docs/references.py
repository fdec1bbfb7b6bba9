"""Prints the table of docs/howto/strong-audit.md: how much attacks find with more reference models, and with views.

python docs/references.py

The network is that of the page, trained on noisy digits and on their copies shifted by a pixel, about which the attacks
with views ask, too. Each of the first models is attacked once, by references among the others; numbers are their means.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import imharness as ih
from imharness.cli import console
from imharness_membership.notebook.references import halves
from imharness_membership.notebook.trained import log_odds

TARGETS, COUNTS = 6, (4, 16, 64)
ATTACKS = ("lira", "bavaria", "rmia", "rmia[mode=tuned]", "rmia[mode=online]")
SHIFTS = ((1, 0), (-1, 0), (0, 1), (0, -1))


def main() -> None:
    """Print one line for each attack and number of views."""
    digits = load_digits()
    images = digits.data / 16 + np.random.default_rng(0).normal(0, 0.5, digits.data.shape)
    views = [images, *(np.roll(images.reshape(-1, 8, 8), shift, (1, 2)).reshape(-1, 64) for shift in SHIFTS)]
    masks = halves(len(images), TARGETS + max(COUNTS), 0)
    outputs = np.stack([_outputs(views, digits.target, mask, seed) for seed, mask in enumerate(masks)])
    odds = np.stack([[log_odds(view, digits.target) for view in model] for model in outputs])
    console.say("| attack | views | " + " | ".join(f"{count} references" for count in COUNTS) + " |")
    console.say("|---|---|" + "---|" * len(COUNTS))
    numbers = {
        (count, seen): _found(outputs, odds, masks, digits.target, count, seen) for count in COUNTS for seen in (0, 4)
    }
    for attack in ATTACKS:
        for seen in (0, 4):
            pairs = [numbers[count, seen][attack] for count in COUNTS]
            console.say(f"| `{attack}` | {seen} | " + " | ".join(f"{auc:.3f}, {tpr:.3f}" for auc, tpr in pairs) + " |")


def _outputs(views: list[np.ndarray], labels: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """Return the probabilities ``(views, n, classes)`` of a model that is trained on the views of some rows."""
    model = MLPClassifier(64, alpha=0, max_iter=300, tol=1e-3, random_state=seed)
    model.fit(np.concatenate([view[mask] for view in views]), np.tile(labels[mask], len(views)))
    return np.stack([model.predict_proba(view) for view in views])


def _found(
    outputs: np.ndarray, odds: np.ndarray, masks: np.ndarray, labels: np.ndarray, count: int, views: int
) -> dict[str, np.ndarray]:
    """Return the AUC and the TPR at 1% FPR of each attack with these references, means over the targets."""
    numbers = []
    for target in range(TARGETS):
        pool = slice(TARGETS, TARGETS + count)
        arguments = {"log_odds": odds[pool, 0], "member": masks[pool]}
        if views:
            arguments |= {"views": odds[pool, 1:], "target_views": odds[target, 1:]}
        rows = {"probabilities": outputs[target, 0], "labels": labels, "member": masks[target]}
        shadow = {"probabilities": outputs[pool][0, 0], "labels": labels, "member": masks[pool][0]}
        table = ih.audit(rows, shadow, references=arguments, evaluators=list(ATTACKS)).rows()
        order = [list(table["evaluator"]).index(f"harness/{attack}") for attack in ATTACKS]
        numbers.append(np.stack([table["auc"][order], table["tpr_at_1"][order]], axis=1))
    return dict(zip(ATTACKS, np.mean(numbers, axis=0), strict=True))


if __name__ == "__main__":
    main()

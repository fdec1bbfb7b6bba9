"""Prints the table of docs/howto/strong-audit.md: how well attacks work with more reference models, and with views.

    python docs/references.py

All models are the network of that page. Each is trained on a random half of noisy digits and on their *views*, which
are copies shifted by a pixel. An attack with views also asks the models about the views. The first `TARGETS` models
are attacked one by one, with the other models as references; numbers are means over these targets.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import imharness as ih
from imharness.cli import console
from imharness_membership.notebook.references import halves
from imharness_membership.notebook.trained import log_odds

TARGETS, COUNTS = 6, (4, 16, 64)
"""The number of models that are attacked, and the numbers of reference models."""
ATTACKS = ("lira", "bavaria", "rmia", "rmia[mode=tuned]", "rmia[mode=online]")
SHIFTS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""How far each view is shifted down and to the right, px."""
VIEWS = (0, len(SHIFTS))
"""About how many views an attack asks."""


def main() -> None:
    """Print one line for each attack and number of views."""
    digits = load_digits()
    images = digits.data / 16 + np.random.default_rng(0).normal(0, 0.5, digits.data.shape)
    shifted = [np.roll(images.reshape(-1, 8, 8), shift, (1, 2)).reshape(-1, 64) for shift in SHIFTS]
    masks = halves(len(images), TARGETS + max(COUNTS), 0)  # (models, n): the rows that each model is trained on
    outputs = np.stack([_outputs([images, *shifted], digits.target, mask, i) for i, mask in enumerate(masks)])
    odds = np.stack([[log_odds(probabilities, digits.target) for probabilities in model] for model in outputs])
    console.say("| attack | views | " + " | ".join(f"{count} references" for count in COUNTS) + " |")
    console.say("|---|---|" + "---|" * len(COUNTS))
    numbers = {
        (count, views): _mean_success(outputs, odds, masks, digits.target, count, views=views > 0)
        for count in COUNTS
        for views in VIEWS
    }
    for attack in ATTACKS:
        for views in VIEWS:
            pairs = [numbers[count, views][attack] for count in COUNTS]
            cells = " | ".join(f"{auc:.3f}, {tpr:.3f}" for auc, tpr in pairs)
            console.say(f"| `{attack}` | {views} | {cells} |")


def _outputs(views: list[np.ndarray], labels: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """Return the probabilities ``(1 + views, n, classes)`` of a model for all rows and their views.

    `views` are the images and their views, ``(n, 64)`` each; the model is trained on all of them of the rows in `mask`.
    """
    model = MLPClassifier(64, alpha=0, max_iter=300, tol=1e-3, random_state=seed)
    model.fit(np.concatenate([view[mask] for view in views]), np.tile(labels[mask], len(views)))
    return np.stack([model.predict_proba(view) for view in views])


def _mean_success(
    outputs: np.ndarray, odds: np.ndarray, masks: np.ndarray, labels: np.ndarray, count: int, *, views: bool
) -> dict[str, np.ndarray]:
    """Return attack -> its AUC and its TPR at 1% FPR ``(2,)`` with `count` references, means over the targets.

    `outputs` are ``(models, 1 + views, n, classes)``, `odds`, the log odds of the labels, ``(models, 1 + views, n)``;
    position 0 of the second axis is the row itself. `masks` are ``(models, n)``.
    """
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

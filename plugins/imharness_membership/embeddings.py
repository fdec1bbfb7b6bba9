"""Draws how a network sees the classes at most and at least risk (Song & Mittal, USENIX Security 2021, figure 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.errors import UsageError
from imharness.files import NO_MARKUP

CLASSES = 5
"""The number of classes at each end of the order by risk."""
FEWEST = 5
"""The fewest rows of a picture."""


@dataclass(frozen=True)
class Embedding:
    """The rows of the chosen classes as points of a plane.

    Attributes:
        points: float ``(n, 2)``, the coordinates of each row; they have no unit.
        labels: the class of each row, ``(n,)``.
        member: whether the network was trained on the row, bool ``(n,)``.
        risk: class -> the mean risk score of its members, the safest classes first.
    """

    points: np.ndarray
    labels: np.ndarray
    member: np.ndarray
    risk: Mapping[int, float]


def ends(risk: np.ndarray, labels: np.ndarray, member: np.ndarray, fewest: int, classes: int = CLASSES) -> list[int]:
    """Return the classes with the lowest and with the highest mean risk of members, in the order of that risk.

    Classes with fewer than `fewest` members, or without non-members, are left out; raises `UsageError` if fewer than
    two remain. Of few classes, all are taken.
    """
    inside = labels[member]
    candidates = [
        int(label)
        for label in np.unique(inside)
        if np.sum(inside == label) >= fewest and (labels[~member] == label).any()
    ]
    if len(candidates) < 2:
        raise UsageError(f"fewer than two classes have {fewest} members and a non-member; ask for fewer members.")
    candidates.sort(key=lambda label: (float(risk[member & (labels == label)].mean()), label))
    return candidates if len(candidates) <= 2 * classes else [*candidates[:classes], *candidates[-classes:]]


def embedded(
    features: np.ndarray, risk: np.ndarray, labels: np.ndarray, member: np.ndarray, fewest: int, seed: int = 0
) -> Embedding:
    """Return the rows of the classes at both ends of the risk by t-SNE of the inputs of the last layer.

    Members and non-members are placed at once, so that they can be compared.

    Args:
        features: float ``(n, d)``, the inputs of the network's last layer.
        risk: privacy risk scores ``(n,)``; labels, member: classes and membership ``(n,)``.
        fewest: members that a class must have; the paper has 100.
    """
    from sklearn.manifold import TSNE

    chosen = ends(risk, labels, member, fewest)
    selected = np.isin(labels, chosen)
    if int(selected.sum()) < FEWEST:
        raise UsageError(f"{int(selected.sum())} rows are too few for a picture.")
    perplexity = min(30.0, (int(selected.sum()) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(features[selected])
    means = {label: float(risk[member & (labels == label)].mean()) for label in chosen}
    return Embedding(points, labels[selected], member[selected], means)


def draw(embedding: Embedding, out: Path) -> None:
    """Write a picture with one panel for members and one for non-members, a colour for each class."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(NO_MARKUP):
        figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), sharex=True, sharey=True, layout="constrained")
        colours = pyplot.get_cmap("tab10")
        for axis, title, inside in zip(axes, ("members", "non-members"), (True, False), strict=True):
            for number, (class_label, risk) in enumerate(embedding.risk.items()):
                rows = (embedding.labels == class_label) & (embedding.member == inside)
                label = f"class {class_label}, risk {risk:.2f}"
                axis.scatter(*embedding.points[rows].T, s=9, color=colours(number % 10), label=label)
            axis.set_title(title, fontsize=10)
            axis.set_xticks([])
            axis.set_yticks([])
        axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
        pyplot.close(figure)

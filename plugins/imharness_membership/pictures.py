"""The pictures of the track on the site: ROC curves on log axes, and privacy against accuracy."""

from collections.abc import Mapping

import numpy as np

from imharness.tracks import Chart, Series

Columns = Mapping[str, np.ndarray]
UNDEFENDED = "harness/plain-training"
POINTS = 200
"""Largest number of points of a curve."""


def where(rows: Columns, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rows of a mask."""
    return {name: values[mask] for name, values in rows.items()}


def charts(rows: Columns) -> list[Chart]:
    """Draw what evaluators find out about the undefended model, and what defenses cost."""
    undefended = where(rows, (rows["defense"] == UNDEFENDED) & (rows["split"] == 0) & ~rows["adaptive"].astype(bool))
    first = where(undefended, undefended["model"] == min(undefended["model"], default=""))
    lines = [_curve(str(name), where(first, first["evaluator"] == name)) for name in np.unique(first["evaluator"])]
    roc = Chart(
        id="roc", title="ROC of evaluators, undefended model", kind="curves", log=True, series=tuple(lines),
        x_label="false-positive rate", y_label="true-positive rate",
        caption="Share of members found against share of non-members accused, both on log axes: what matters to a "
        "person accused is the left edge. First split, first model.",
    )  # fmt: skip
    front = Chart(
        id="cost", title="Privacy against accuracy", kind="scatter", table="defenses", x="test", y="accuracy_adaptive",
        front=True,
        caption="Test accuracy of the defended model against the strongest adaptive attack. The line joins the "
        "defenses that no other beats in both.",
    )  # fmt: skip
    return [roc, front] if lines else [front]


def _curve(label: str, rows: Columns) -> Series:
    """Return an ROC curve thinned to the points where it turns, at most `POINTS`."""
    member = rows["member"].astype(bool)
    order = np.argsort(-rows["score"], kind="stable")
    ends = np.append(np.diff(rows["score"][order]) != 0, True)
    fpr, tpr = (np.cumsum(mask[order])[ends] / max(int(mask.sum()), 1) for mask in (~member, member))
    kept = np.unique(np.linspace(0, len(fpr) - 1, POINTS).round().astype(int))
    return Series(label=label, x=tuple(fpr[kept].tolist()), y=tuple(tpr[kept].tolist()))

"""The table of distances under attack."""

from collections.abc import Sequence

import numpy as np

from imharness.leaderboard import Blocks, ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_perceptual.choices import steps
from imharness_perceptual.families import repeated
from imharness_perceptual.steps import OWN
from imharness_perceptual.verdicts import credit


def followed_own(query: Query) -> bool:
    """Say whether the results have an attack along the gradient of the very distance that it attacks."""
    if "attack" not in query.steps or "before" not in query("SELECT * FROM attack LIMIT 0"):
        return False
    return len(query(f"SELECT 1 AS own FROM attack WHERE along = '{OWN}' LIMIT 1")["own"]) > 0


def attacked(query: Query) -> Table:
    """Return the table of distances under attack, ranked by its last column.

    Each radius has a column "moved": how far attacks move a distance, as a multiple of the mean distance. Where the
    images form ladders of severities, each radius also has a column "right": the share of choices that stay right.
    """
    by, about = ["radius", "dataset"], ["reference", "photograph", "family", "severity"]
    # of the attacks on one image, the one that moves the distance most counts
    sql = (
        f"SELECT metric, name, {', '.join([*by, *about])}, any_value(before) AS before, "
        f"max(after) FILTER (NOT isnan(after)) AS after FROM attack WHERE along = '{OWN}' GROUP BY ALL"
    )
    images = query.blocks(sql, entry="metric", by=by, measures=["before", "after"], about=about)
    choice = {"unit": "forced choice", "cluster_unit": "photograph"}
    has_ladders = any(len(_steps(images, c)[0]) for c in range(len(images.conditions)))
    columns: list[ColumnSpec] = []
    if has_ladders:
        columns.append(
            ColumnSpec(
                key="right-0",
                label="right, no attack",
                better="higher",
                description="Share of forced choices on the ladder that are right without an attack.",
                **choice,
            )
        )
    # without an attack, the distances of a data set are the same at every radius, so that one condition of each counts
    condition_of_dataset = {condition["dataset"]: c for c, condition in enumerate(images.conditions)}
    untouched = list(condition_of_dataset.values())
    values = {metric: {"right-0": _right(images, metric, untouched, "before")} for metric in images.entries}
    for radius in sorted({condition["radius"] for condition in images.conditions}, key=int):
        moved = ColumnSpec(
            key=f"moved-{radius}",
            label=f"moved at {radius}/255",
            better="lower",
            description=f"Mean of (d' - d) divided by mean |d|, for the worst attack within {radius}/255.",
            unit="image",
            cluster_unit="photograph",
        )
        right = ColumnSpec(
            key=f"right-{radius}",
            label=f"right at {radius}/255",
            better="higher",
            description=f"Share of choices that are right when the nearer image is attacked within {radius}/255.",
            **choice,
        )
        columns += [moved, right] if has_ladders else [moved]
        conditions = images.where(radius=radius)
        for metric, row_values in values.items():
            row_values[moved.key] = _moved(images, metric, conditions)
            row_values[right.key] = _right(images, metric, conditions, "after")
    last_two = reversed(columns[-2:])  # ranked by the last column; the one before it decides ties
    rows = [Row(label=metric, values=row_values) for metric, row_values in values.items()]
    return Table(
        id="attacked",
        title="Distances under attack",
        caption="Study table: attacks that follow a distance's own gradient push a distorted image away from its "
        "reference inside a small ball, and the one that pushes it farthest counts, image by image. How far does the "
        "distance move, as a multiple of the mean distance? That "
        "depends on the scale of a distance, and PSNR, which falls from infinity, has none. "
        + (
            "And is the milder of two neighbouring severities still the nearer one? That depends on no scale, so the "
            "table is ranked by it."
            if has_ladders
            else "How many forced choices stay right, which depends on no scale, is in the ranking."
        ),
        entry="metric",
        columns=tuple(columns),
        rows=tuple(ranked(rows, *last_two)),
        ranked_by=columns[-1].key,
    )


def _moved(images: Blocks, metric: str, conditions: Sequence[int]) -> Value:
    """Return the mean of (d' - d) / mean |d| over the images in which both distances are finite."""
    row = images.entries.index(metric)
    before, after = (
        np.concatenate([images.values[measure][c][row] for c in conditions]) for measure in ("before", "after")
    )
    photographs = np.concatenate([images.about["photograph"][c] for c in conditions])
    finite = np.isfinite(before) & np.isfinite(after)
    if not finite.any():
        return missing("no finite value")
    before, after = before[finite], after[finite]
    return mean_value((after - before) / max(float(np.abs(before).mean()), 1e-12), repeated(photographs[finite]))


def _steps(images: Blocks, c: int) -> tuple[np.ndarray, ...]:
    """Return the positions of milder and stronger images of a condition, and the ladder of each pair; see `steps`."""
    return steps(*(images.about[name][c] for name in ("reference", "family", "severity")))


def _right(images: Blocks, metric: str, conditions: Sequence[int], measure: str) -> Value:
    """Return the share of neighbouring severities of which the milder image is nearer to the reference.

    The distance of the milder image is that of `measure`, "before" or "after" the attack; the stronger is untouched.
    """
    row = images.entries.index(metric)
    credited, photographs = [np.zeros(0)], [np.zeros(0, object)]
    for c in conditions:
        first, second, _ = _steps(images, c)
        milder, stronger = images.values[measure][c][row, first], images.values["before"][c][row, second]
        credited.append(credit(milder, stronger, np.zeros(len(first))))
        photographs.append(images.about["photograph"][c][first])
    right, photograph_names = np.concatenate(credited), np.concatenate(photographs)
    return mean_value(right[~np.isnan(right)], repeated(photograph_names[~np.isnan(right)]))

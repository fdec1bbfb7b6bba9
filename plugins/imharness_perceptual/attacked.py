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
    """Say whether some attack followed the gradient of the distance that it attacked."""
    if "attack" not in query.steps or "before" not in query("SELECT * FROM attack LIMIT 0"):
        return False
    return len(query(f"SELECT 1 AS own FROM attack WHERE along = '{OWN}' LIMIT 1")["own"]) > 0


def attacked(query: Query) -> Table:
    """Return how far each distance is moved, relative to itself, and how many choices on a ladder stay right."""
    by, about = ["radius", "dataset"], ["reference", "photograph", "family", "severity"]
    sql = (
        f"SELECT metric, name, {', '.join([*by, *about])}, any_value(before) AS before, "
        f"max(after) FILTER (NOT isnan(after)) AS after FROM attack WHERE along = '{OWN}' GROUP BY ALL"
    )
    images = query.blocks(sql, entry="metric", by=by, measures=["before", "after"], about=about)
    choice = {"unit": "forced choice", "cluster_unit": "photograph"}
    ladder = any(len(_steps(images, c)[0]) for c in range(len(images.conditions)))
    columns = [
        ColumnSpec(
            key="right-0",
            label="right, no attack",
            better="higher",
            description="Share of forced choices on the ladder that are right without an attack.",
            **choice,
        )
    ] * ladder
    once = list({condition["dataset"]: c for c, condition in enumerate(images.conditions)}.values())
    values = {metric: {"right-0": _right(images, metric, once, "before")} for metric in images.entries}
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
        columns += [moved, *[right] * ladder]
        here = images.where(radius=radius)
        for metric, cells in values.items():
            cells[moved.key] = _moved(images, metric, here)
            cells[right.key] = _right(images, metric, here, "after")
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
            if ladder
            else "How many forced choices stay right, which depends on no scale, is in the ranking."
        ),
        entry="metric",
        columns=tuple(columns),
        rows=tuple(
            ranked((Row(label=metric, values=row_values) for metric, row_values in values.items()), *columns[:-3:-1])
        ),
        ranked_by=columns[-1].key,
    )


def _moved(images: Blocks, metric: str, conditions: Sequence[int]) -> Value:
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
    return steps(*(images.about[name][c] for name in ("reference", "family", "severity")))


def _right(images: Blocks, metric: str, conditions: Sequence[int], measure: str) -> Value:
    """Return the share of milder alternatives, seen by `measure`, that are nearer than untouched stronger ones."""
    row, credited, photographs = images.entries.index(metric), [np.zeros(0)], [np.zeros(0, object)]
    for c in conditions:
        first, second, _ = _steps(images, c)
        milder, stronger = images.values[measure][c][row, first], images.values["before"][c][row, second]
        credited.append(credit(milder, stronger, np.zeros(len(first))))
        photographs.append(images.about["photograph"][c][first])
    right, photograph_names = np.concatenate(credited), np.concatenate(photographs)
    return mean_value(right[~np.isnan(right)], repeated(photograph_names[~np.isnan(right)]))

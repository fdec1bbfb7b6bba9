"""Track 3: perceptual distances on a ladder of distortions whose order is known.

Two-alternative forced choice (Zhang et al., CVPR 2018, section 4.1): of two distorted images, which is nearer to the
reference? Here the two are neighbouring severities of one distortion, so the right answer is known without judges.
Agreement is 1 for the right answer, 1/2 for a tie, 0 otherwise.
"""

from collections.abc import Mapping

import numpy as np
import torch

from harness.api import (
    ColumnSpec,
    FullReferenceMetric,
    ImageDataset,
    Info,
    Interval,
    NotTestable,
    Paper,
    Planner,
    Query,
    Row,
    Selection,
    Step,
    StepContext,
    StepResult,
    Table,
    Track,
    cube,
    hookimpl,
    interval,
    mean_value,
    missing,
    spearman_rows,
    value_of,
    win_rates,
    win_table,
)


class PerceptualTrack(Track):
    """Perceptual distances: which one orders distortions as people would."""

    info = Info(
        id="harness/perceptual",
        version="1",
        paper=Paper(
            title="The Unreasonable Effectiveness of Deep Features as a Perceptual Metric",
            authors="Zhang, Isola, Efros, Shechtman & Wang",
            year=2018,
            url="https://arxiv.org/abs/1801.03924",
        ),
    )
    title = "Perceptual distances"
    measures = "Whether a distance between images grows with the severity of a distortion (severity order, not human)."

    def plan(self, planner: Planner, selection: Selection) -> None:
        """One task per data set and metric."""
        for dataset in selection.of(ImageDataset):
            for metric in selection.of(FullReferenceMetric):
                planner.task("distance", {"dataset": dataset, "metric": metric})

    def steps(self) -> Mapping[str, Step]:
        """Return ``distance``."""
        return {"distance": Step(distance, "1")}

    def tables(self, query: Query) -> list[Table]:
        """Return agreement by metric and family, and who beats whom."""
        if "distance" not in query.steps:
            return []
        rows = query("SELECT metric, dataset, name, reference, family, severity, distance FROM distance ORDER BY ALL")
        pairs = _forced_choices(rows)
        return [_agreement(rows, pairs), _wins(pairs)]


def distance(context: StepContext) -> StepResult:
    """Measure every distorted image against its reference; larger = farther, whatever the metric's direction."""
    images = context.images()
    metric, farther = context.build("metric"), -context.component("metric").closeness
    position = {name: i for i, name in enumerate(images.names)}
    origin = [position[str(name)] for name in images.columns["reference"]]

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        reference = images.load([origin[p] for p in positions]).to(batch.device)
        return {"distance": farther * metric(batch, reference)}

    columns = {name: images.columns[name] for name in ("reference", "family", "severity")}
    return StepResult(rows={"name": list(images.names), **columns, **context.map(images, measure)})


def _forced_choices(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return agreement for every pair of neighbouring severities of one reference and family."""
    place = {
        key: value
        for *key_parts, value in zip(
            rows["metric"],
            rows["dataset"],
            rows["reference"],
            rows["family"],
            rows["severity"],
            rows["distance"],
            strict=True,
        )
        if (key := tuple(key_parts))
    }
    found: list[tuple[str, str, str, float]] = []
    for (metric, dataset, reference, family, severity), far in place.items():
        near = place.get((metric, dataset, reference, family, severity - 1))
        if near is not None:
            unit = f"{dataset} {reference} {family} {severity}"
            found.append((metric, family, unit, float(near < far) + 0.5 * float(near == far)))
    names = ("metric", "family", "unit", "agreement")
    return {name: np.array(column) for name, column in zip(names, zip(*found, strict=True), strict=True)}


def _agreement(rows: Mapping[str, np.ndarray], pairs: Mapping[str, np.ndarray]) -> Table:
    families = np.unique(pairs["family"])
    columns = [
        ColumnSpec(
            key="all",
            label="2AFC agreement",
            better="higher",
            description="Share of neighbouring severities told apart rightly, all families; 0.5 is chance.",
        ),
        ColumnSpec(
            key="srcc",
            label="SROCC with severity",
            better="higher",
            description="Spearman correlation of distance and severity over all families.",
        ),
        *(
            ColumnSpec(key=str(f), label=str(f), better="higher", description=f"2AFC agreement on {f}.")
            for f in families
        ),
    ]
    table_rows = []
    for metric in np.unique(pairs["metric"]):
        own = pairs["metric"] == metric
        values = {"all": mean_value(pairs["agreement"][own])}
        distorted = (rows["metric"] == metric) & (rows["severity"] > 0)
        try:
            values["srcc"] = value_of(_rho(rows["distance"][distorted], rows["severity"][distorted]))
        except NotTestable as error:
            values["srcc"] = missing(error)
        for family in families:
            values[str(family)] = mean_value(pairs["agreement"][own & (pairs["family"] == family)])
        table_rows.append(Row(label=str(metric), values=values))
    table_rows.sort(key=lambda row: (-(row.values["all"].value or 0), -(row.values["srcc"].value or 0)))
    return Table(
        id="agreement",
        title="Agreement with the severity order",
        caption="Forced choices between neighbouring severities of one distortion of one photograph.",
        entry="metric",
        columns=tuple(columns),
        rows=tuple(table_rows),
        ranked_by="all",
        note="Severity order, not human judgement.",
    )


def _rho(distance: np.ndarray, severity: np.ndarray) -> Interval:
    return interval(lambda chosen: spearman_rows(distance[chosen], severity[chosen]), len(distance))


def _wins(pairs: Mapping[str, np.ndarray]) -> Table:
    """A condition is a family; a pair is one forced choice."""
    labels, _, numbers = cube(pairs["metric"], pairs["family"], pairs["unit"], pairs["agreement"])
    wins = win_rates(numbers, higher_wins=True)
    return win_table("metric-wins", "Which metric agrees more", "metric", labels, wins, "more forced choices right")


@hookimpl
def register_tracks() -> list[Track]:
    return [PerceptualTrack()]

"""Accuracy, attacks and risk by epoch of training (Song & Mittal, USENIX Security 2021, figure 2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from imharness.leaderboard import Chart, ColumnSpec, Row, Series, Table, Value
from imharness.tracks import Query
from imharness_membership.tables.figures import apart

FACETS = ("defense", "dataset", "model")
COLUMNS = (
    ColumnSpec(key="train", label="train accuracy", description="Share of the members that are classified right."),
    ColumnSpec(key="test", label="test accuracy", description="Share of the non-members.", better="higher"),
    ColumnSpec(
        key="confidence",
        label="attack accuracy, confidence",
        description="Balanced accuracy of confidence with a threshold for each class.",
        better="lower",
    ),
    ColumnSpec(
        key="modified_entropy",
        label="attack accuracy, modified entropy",
        description="The same of modified entropy.",
        better="lower",
    ),
    ColumnSpec(
        key="risk", label="risk of members", description="Mean privacy risk score of the members.", better="lower"
    ),
)


def by_epoch(query: Query) -> tuple[Table, Chart]:
    """Return the table and the chart of the first split's models at some of their epochs."""
    names = ", ".join((*FACETS, "epoch", *(column.key for column in COLUMNS)))
    columns = query(f"SELECT {names} FROM by_epoch ORDER BY {', '.join(FACETS)}, epoch")
    table = Table(
        id="by-epoch",
        title="Figure 2: accuracy, attack accuracy and risk by epoch",
        caption="What a model knows and gives away after so many epochs of its training. The adversary trains its own "
        "model with the same defense and learns on it at the same epoch. First split.",
        entry="epoch",
        columns=COLUMNS,
        rows=tuple(
            Row(
                label=", ".join([f"epoch {columns['epoch'][i]:g}", *facets]),
                values={column.key: Value(value=float(columns[column.key][i])) for column in COLUMNS},
            )
            for facets, indices in _apart(columns)
            for i in indices
        ),
    )
    chart = Chart(
        id="test-by-epoch",
        title="Test accuracy by epoch",
        kind="curves",
        series=tuple(
            Series(
                label=", ".join(facets) or "all",
                x=tuple(columns["epoch"][indices].astype(float).tolist()),
                y=tuple(columns["test"][indices].astype(float).tolist()),
            )
            for facets, indices in _apart(columns)
        ),
        x_label="epoch",
        y_label="test accuracy",
        caption="Song and Mittal, figure 2: a defended model is to be compared with an earlier epoch of the undefended "
        "one, at the same accuracy. First split.",
    )
    return table, chart


def _apart(columns: dict[str, np.ndarray]) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the row numbers of each defense, data set and model, with those of these names that differ; see `apart`."""
    places = [{name: str(columns[name][i]) for name in FACETS} for i in range(len(columns["epoch"]))]
    yield from apart(places, FACETS)

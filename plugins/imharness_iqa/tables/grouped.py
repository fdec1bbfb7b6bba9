"""Tables by strength (11), by metric (12, 13), by attack type (14), by group of defenses (18) and by data set (19)."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.tracks import ColumnSpec, Row, Table, Value
from imharness_iqa.tables.data import KINDS, MEASURES, Columns, Study, correlation, mean_of, where

SROCC = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."
BY = {
    "strength": ("Table 11: by strength of the attack", ("d", "r", "srocc")),
    "metric": ("Tables 12 and 13: by metric", ("d", "r", "srocc")),
    "type": ("Table 14: by type of attack", ("d", "r", "srocc", "psnr", "ssim")),
    "dataset": ("Table 19: by data set", ("d", "r", "srocc")),
}
STRENGTH_ORDER = ("weak", "medium", "strong")
GROUP_COLUMNS = ("dd", "d", "rd", "r", "srocc", "psnr")


def tables(study: Study) -> list[Table]:
    """Return a table for each way to group that has at least two groups, each in its two halves."""
    rows = where(study.rows, np.isin(study.rows["defense"], study.chosen()))
    rows["type"] = attack_types(rows)
    found = []
    for key, (title, shown) in BY.items():
        groups = sorted(np.unique(rows[key]).tolist(), key=_order)
        if len(groups) > 1:
            found += [_by(study, rows, key, groups, shown, title, adaptive) for adaptive in KINDS]
    return [*found, _defense_groups(study, rows)]


def attack_types(rows: Columns) -> np.ndarray:
    """Return what is attacked with: gradients inside a bound, gradients without one, or scores alone."""
    bounded = np.where(rows["norm"] == "unrestricted", "white-box, unrestricted", "white-box, bounded")
    known = np.where(rows["access"] == "black_box", "black-box", bounded)
    return np.where(rows["access"] == "external", "external", known)


def _order(group: str) -> tuple[int, str]:
    return (STRENGTH_ORDER.index(group) if group in STRENGTH_ORDER else len(STRENGTH_ORDER), group)


def _value(rows: Columns, name: str) -> Value:
    return correlation(rows, resampled=False) if name == "srocc" else mean_of(rows, name)


def _column(key: str, name: str, of: str) -> ColumnSpec:
    if name == "srocc":
        return ColumnSpec(key=key, label=f"SROCC, {of}", better="higher", description=SROCC)
    m = MEASURES[name]
    return ColumnSpec(key=key, label=f"{m.label}, {of}", better=m.better, decimals=m.decimals, description=m.text)


def _by(
    study: Study,
    rows: Columns,
    key: str,
    groups: Sequence[str],
    shown: Sequence[str],
    title: str,
    adaptive: bool,
) -> Table:
    half = where(rows, rows["adaptive"] == adaptive)
    table_rows = []
    for defense in study.chosen():
        own = where(half, half["defense"] == defense)
        if len(own["name"]):
            parts = {group: where(own, own[key] == group) for group in groups}
            values = {f"{i}_{name}": _value(parts[g], name) for i, g in enumerate(groups) for name in shown}
            table_rows.append(Row(label=defense, values=values))
    return Table(
        id=f"by-{key}-{KINDS[adaptive]}",
        title=f"{title}, {KINDS[adaptive]} attacks",
        caption="Each image counts once, with its mean over the conditions of the group.",
        entry="defense",
        columns=tuple(_column(f"{i}_{name}", name, g) for name in shown for i, g in enumerate(groups)),
        rows=tuple(table_rows),
        note=study.note,
    )


def _defense_groups(study: Study, rows: Columns) -> Table:
    members: Mapping[str, list[str]] = {}
    for defense in study.chosen():
        members.setdefault(study.groups.get(defense, "other"), []).append(defense)
    table_rows = []
    for group, defenses in sorted(members.items()):
        own = where(rows, np.isin(rows["defense"], defenses))
        values: dict[str, Value] = {}
        for adaptive, kind in KINDS.items():
            part = where(own, own["adaptive"] == adaptive)
            values |= {f"{kind}_{name}": _pooled(part, name) for name in GROUP_COLUMNS}
        clean = where(study.clean, np.isin(study.clean["defense"], defenses))
        values["srocc_clean"] = _pooled(clean, "srocc")
        table_rows.append(Row(label=group, title=", ".join(defenses), values=values))
    columns = [_column(f"{kind}_{name}", name, kind) for name in GROUP_COLUMNS for kind in KINDS.values()]
    text = "Spearman correlation of f(D(x)) with the quality labels."
    columns.append(ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description=text))
    return Table(
        id="by-group",
        title="Table 18: by group of defenses",
        caption="Means over the defenses of a group, each with its best parameter value.",
        entry="group",
        columns=tuple(columns),
        rows=tuple(table_rows),
        note=study.note,
    )


def _pooled(rows: Columns, name: str) -> Value:
    """Return a number over all defenses of a group: each defense is a condition of its own."""
    if name != "srocc":
        return mean_of(rows, name)
    apart = np.char.add(np.char.add(rows["condition"].astype(str), " · "), rows["defense"].astype(str))
    return correlation({**rows, "condition": apart}, resampled=False)

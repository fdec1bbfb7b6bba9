"""Tables of the track: table 2 of Guardians of Image Quality, and who beats whom (tables 10, 15-17).

Definitions (section 4.2): with the range of the metric, upper - lower,
D = 100 |f(x) - f(D(x'))| / range, and
R = log10( max(upper - f(x), f(x) - lower) / range / (|f(x) - f(D(x'))| / range + eps) ).
"""

from collections.abc import Mapping

import numpy as np

from harness.api import (
    ColumnSpec,
    NotTestable,
    Query,
    Row,
    Table,
    Value,
    cube,
    interval,
    mean_value,
    missing,
    spearman_rows,
    value_of,
    win_rates,
    win_table,
)

EPS = 1e-6
KINDS = {False: "fixed", True: "adaptive"}
PER_IMAGE = {
    "d": ("D", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
    "r": ("R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
    "psnr": ("PSNR", "higher", 2, "Of the defended attacked image to the original, dB."),
    "ssim": ("SSIM", "higher", 3, "Of the defended attacked image to the original, uniform 7x7 window."),
    "mse": ("MSE x1e3", "lower", 3, "Of the defended attacked image to the original."),
    "linf": ("L-inf", "lower", 3, "Of the defended attacked image to the original."),
    "ties": ("ties %", "", 1, "Images whose score did not move at all."),
}
Columns = Mapping[str, np.ndarray]


def all_tables(query: Query) -> list[Table]:
    """Return the tables that the finished cells allow."""
    if not {"evaluate", "clean"} <= query.steps:
        return []
    rows = _scored(
        query(
            """
            SELECT e.*, c.score AS source, c.mos FROM (
                SELECT dataset, metric, defense, method, strength, adaptive, name, score, psnr, ssim, mse, linf
                FROM evaluate) e
            JOIN clean c USING (dataset, metric, name) ORDER BY ALL
            """
        ),
        query("SELECT DISTINCT metric, lower, upper FROM clean"),
    )
    tables = [_overall(query, rows)]
    for adaptive in (False, True):
        own = _where(rows, rows["adaptive"] == adaptive)
        if len(np.unique(own["defense"])) > 1:
            tables += [_wins(own, "d", adaptive), _wins(own, "ssim", adaptive)]
    return tables


def _scored(rows: dict[str, np.ndarray], bounds: Columns) -> dict[str, np.ndarray]:
    """Add D, R and ties per image, and the name of the condition."""
    low, high = (dict(zip(bounds["metric"], bounds[side], strict=True)) for side in ("lower", "upper"))
    lower, upper = (np.array([side[m] for m in rows["metric"]]) for side in (low, high))
    change = np.abs(rows["source"].astype(float) - rows["score"]) / (upper - lower)
    room = np.maximum(upper - rows["source"], rows["source"] - lower) / (upper - lower)
    parts = zip(rows["dataset"], rows["metric"], rows["method"], rows["strength"], strict=True)
    return {
        **rows,
        "d": 100 * change,
        "r": np.log10(room / (change + EPS)),
        "mse": 1e3 * rows["mse"],
        "ties": 100.0 * (change == 0),
        "condition": np.array([" · ".join(part) for part in parts]),
    }


def _where(rows: Columns, mask: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[mask] for name, values in rows.items()}


def _overall(query: Query, rows: Columns) -> Table:
    conditions = {adaptive: len(np.unique(rows["condition"][rows["adaptive"] == adaptive])) for adaptive in KINDS}
    clean = query("SELECT d.dataset, d.metric, d.defense, d.name, d.score, c.mos FROM defended d "
                  "JOIN clean c USING (dataset, metric, name) ORDER BY ALL")  # fmt: skip
    clean["condition"] = np.array([" · ".join(part) for part in zip(clean["dataset"], clean["metric"], strict=True)])
    times = query("SELECT defense, avg(ms) AS ms FROM purify_tasks GROUP BY defense")
    ms = dict(zip(times["defense"], times["ms"], strict=True))
    table_rows = []
    for defense in np.unique(rows["defense"]):
        own = _where(rows, rows["defense"] == defense)
        values = {"srocc_clean": _srocc(_where(clean, clean["defense"] == defense))}
        for adaptive, kind in KINDS.items():
            part = _where(own, own["adaptive"] == adaptive)
            values |= {f"{kind}_{name}": value for name, value in _figures(part, conditions[adaptive]).items()}
        values["ms"] = Value(value=float(ms[defense])) if defense in ms else missing("not timed")
        table_rows.append(Row(label=str(defense), values=values))
    table_rows.sort(key=lambda row: row.values["fixed_d"].value if row.values["fixed_d"].value is not None else np.inf)
    return Table(
        id="defenses",
        title="Defenses, all attacks, strengths and metrics",
        caption="Fixed: the attack does not know the defense. Adaptive: it attacks metric and defense together. Each "
        "image counts once, with its mean over conditions; intervals resample images. Range by the bounds of each "
        f"metric, eps {EPS:g}. Coverage: share of the conditions (metric, attack, strength) that have a result.",
        entry="defense",
        columns=_columns(),
        rows=tuple(table_rows),
        ranked_by="fixed_d",
        note=_note(query),
    )


def _note(query: Query) -> str:
    """Say which metrics carry a label, and what stands in for human quality labels."""
    kinds = query("SELECT DISTINCT metric, labelled FROM clean WHERE labelled <> '' ORDER BY ALL")
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    parts = [f"{metric}: {label}" for metric, label in zip(kinds["metric"], kinds["labelled"], strict=True)]
    return ". ".join([*parts, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])


def _columns() -> tuple[ColumnSpec, ...]:
    """Return table 2's columns, the fixed attack beside the adaptive one; what ranks comes first."""
    text = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."
    first = {name: PER_IMAGE[name] for name in ("d", "r")} | {"srocc": ("SROCC", "higher", 3, text)}
    last = {"coverage": ("coverage %", "", 0, "Share of the conditions that have a result.")}
    columns = [
        ColumnSpec(key=f"{kind}_{key}", label=f"{label}, {kind}", better=better, decimals=decimals, description=text)
        for key, (label, better, decimals, text) in {**first, **PER_IMAGE, **last}.items()
        for kind in KINDS.values()
    ]
    text = "Spearman correlation of f(D(x)) with the quality labels, mean over metrics."
    clean = ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description=text)
    ms = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")
    return (*columns[:4], clean, *columns[4:], ms)


def _figures(rows: Columns, conditions: int) -> dict[str, Value]:
    if len(rows["name"]) == 0:
        reason = missing("no attack through this defense: it has no gradient")
        return dict.fromkeys([*PER_IMAGE, "srocc", "coverage"], reason)
    units = np.array([f"{d} {n}" for d, n in zip(rows["dataset"], rows["name"], strict=True)])
    _, place = np.unique(units, return_inverse=True)
    counts = np.bincount(place)
    found = {name: mean_value(np.bincount(place, rows[name].astype(float)) / counts) for name in PER_IMAGE}
    present = len(np.unique(rows["condition"]))
    coverage = Value(value=100 * present / conditions, n=present)
    return {**found, "srocc": _srocc(rows), "coverage": coverage}


def _srocc(rows: Columns) -> Value:
    """Return Spearman's rho with the labels, mean over conditions; conditions with one score for all are left out."""
    _, names, scores = cube(rows["condition"], rows["name"], np.full(len(rows["name"]), "score"), rows["score"])
    place = {str(name): label for name, label in zip(rows["name"], rows["mos"], strict=True)}
    labels, scores = np.array([place[name] for name in names], dtype=float), scores[:, :, 0]

    def rho(positions: np.ndarray) -> np.ndarray:
        estimates = np.stack([spearman_rows(own[positions], labels[positions]) for own in scores], axis=1)
        defined = ~np.isnan(estimates)
        with np.errstate(invalid="ignore"):
            return np.where(defined, estimates, 0).sum(axis=1) / defined.sum(axis=1)

    try:
        return value_of(interval(rho, len(labels)))
    except NotTestable as error:
        return missing(error)


def _wins(rows: Columns, score: str, adaptive: bool) -> Table:
    units = np.array([f"{d} {n}" for d, n in zip(rows["dataset"], rows["name"], strict=True)])
    labels, _, numbers = cube(rows["defense"], rows["condition"], units, rows[score])
    name, better, _, text = PER_IMAGE[score]
    wins = win_rates(numbers, higher_wins=better == "higher")
    return win_table(
        f"wins-{score}-{KINDS[adaptive]}",
        f"Who beats whom by {name}, {KINDS[adaptive]} attacks",
        "defense",
        labels,
        wins,
        f"{better} {name} ({text.rstrip('.')})",
    )

"""Table 2, tables 10 and 15 to 17 (who beats whom), and table 20 (rank and linear correlation)."""

import numpy as np

from imharness.tracks import ColumnSpec, PairedScores, Row, Table, Value, missing, paired_scores
from imharness_iqa.tables.data import EPS, KINDS, MEASURES, NO_GRADIENT, Columns, Study, correlation, mean_of, where

SHOWN = ("d", "r", "srocc", "psnr", "ssim", "mse", "linf", "ties", "r_without_ties", "coverage")
SROCC = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."


def tables(study: Study) -> list[Table]:
    """Return the main table and the correlations."""
    return [_main(study), _correlations(study)]


def by_fixed_d(row: Row) -> float:
    """Return what rows are sorted by."""
    value = row.values["fixed_d"].value
    return np.inf if value is None else value


def _main(study: Study) -> Table:
    rows = []
    for defense in study.chosen():
        own = where(study.rows, study.rows["defense"] == defense)
        values = {"srocc_clean": correlation(where(study.clean, study.clean["defense"] == defense))}
        for adaptive, kind in KINDS.items():
            figures = _figures(where(own, own["adaptive"] == adaptive), study.conditions(adaptive))
            values |= {f"{kind}_{name}": value for name, value in figures.items()}
        values["ms"] = Value(value=float(study.times[defense])) if defense in study.times else missing("not timed")
        family = study.groups.get(defense)
        rows.append(Row(label=defense, values=values, facets={"family": family} if family else {}))
    return Table(
        id="defenses",
        title="Defenses, all attacks, strengths and metrics",
        caption="Fixed: the attack does not know the defense. Adaptive: it attacks metric and defense together. Each "
        "image counts once, with its mean over conditions; intervals resample images. Range by the bounds of each "
        f"metric, eps {EPS:g}. Coverage: share of the conditions (metric, attack, strength) that have a result. Of a "
        "defense with several parameter values, the one with the lowest D against fixed attacks.",
        entry="defense",
        columns=_columns(),
        rows=tuple(sorted(rows, key=by_fixed_d)),
        ranked_by="fixed_d",
        note=study.note,
    )


def _columns() -> tuple[ColumnSpec, ...]:
    """Return table 2's columns, the fixed attack beside the adaptive one; what ranks comes first."""
    shown = {name: (m.label, m.better, m.decimals, m.text) for name, m in MEASURES.items()}
    shown["srocc"] = ("SROCC", "higher", 3, SROCC)
    shown["coverage"] = ("coverage %", "", 0, "Share of the conditions that have a result.")
    columns = [
        ColumnSpec(key=f"{kind}_{key}", label=f"{label}, {kind}", better=better, decimals=decimals, description=text)
        for key, (label, better, decimals, text) in ((key, shown[key]) for key in SHOWN)
        for kind in KINDS.values()
    ]
    text = "Spearman correlation of f(D(x)) with the quality labels, mean over metrics."
    clean = ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description=text)
    ms = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")
    return (*columns[:4], clean, *columns[4:], ms)


def _figures(rows: Columns, conditions: int) -> dict[str, Value]:
    if len(rows["name"]) == 0:
        return dict.fromkeys(SHOWN, missing(NO_GRADIENT))
    found = {name: mean_of(rows, name) for name in SHOWN if name in MEASURES}
    present = len(np.unique(rows["condition"]))
    coverage = Value(value=100 * present / conditions, n=present)
    return {**found, "srocc": correlation(rows), "coverage": coverage}


def comparisons(study: Study, types: np.ndarray) -> list[PairedScores]:
    """Return D and SSIM by image, of fixed and of adaptive attacks: who beats whom (tables 10 and 15 to 17)."""
    found, shown = [], [*study.chosen(), *study.trained]
    facets = {**{name: study.rows[name] for name in ("dataset", "metric", "method", "strength")}, "type": types}
    facets["attack"] = facets.pop("method")
    if "labels" in study.rows:
        facets["labels"] = study.rows["labels"]
    for adaptive, kind in KINDS.items():
        mask = (study.rows["adaptive"] == adaptive) & np.isin(study.rows["defense"], shown)
        if len(np.unique(study.rows["defense"][mask])) > 1:
            own = where(study.rows, mask)
            found += [
                paired_scores(
                    own["defense"],
                    {**{name: values[mask] for name, values in facets.items()}, "attacker": np.full(mask.sum(), kind)},
                    own["unit"],
                    own[score],
                    id=f"wins-{score}-{kind}",
                    title=f"Who beats whom by {MEASURES[score].label}, {kind} attacks",
                    about=f"{MEASURES[score].better} {MEASURES[score].label} ({MEASURES[score].text.rstrip('.')})",
                    entry="defense",
                    measure=MEASURES[score].label,
                    description=MEASURES[score].text,
                    better="lower" if MEASURES[score].better == "lower" else "higher",
                    decimals=MEASURES[score].decimals,
                    families={**dict.fromkeys(study.trained, "training"), **study.groups},
                    table="defenses",
                    column=f"{kind}_{score}",
                )
                for score in ("d", "ssim")
            ]
    return found


def _correlations(study: Study) -> Table:
    names = {"spearman": "SROCC", "pearson": "PLCC"}
    halves = {"clean": "f(D(x))", "fixed": "f(D(x')), fixed attacks", "adaptive": "f(D(x')), adaptive attacks"}
    rows = []
    for defense in study.chosen():
        own = where(study.rows, study.rows["defense"] == defense)
        parts = {kind: where(own, own["adaptive"] == adaptive) for adaptive, kind in KINDS.items()}
        parts["clean"] = where(study.clean, study.clean["defense"] == defense)
        values = {
            f"{half}_{method}": correlation(parts[half], method, resampled=False) for half in halves for method in names
        }
        rows.append(Row(label=defense, values=values))
    columns = tuple(
        ColumnSpec(
            key=f"{half}_{method}",
            label=f"{name}, {half}",
            better="higher",
            description=f"{method.title()} correlation of {text} with the quality labels, mean over conditions.",
        )
        for method, name in names.items()
        for half, text in halves.items()
    )
    return Table(
        id="correlations",
        title="Rank correlation beside linear correlation",
        caption="Do both tell the same story? Scores with quality labels, mean over conditions.",
        entry="defense",
        columns=columns,
        rows=tuple(rows),
        note=study.note,
    )

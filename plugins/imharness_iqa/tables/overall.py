"""Table 2, tables 10 and 15 to 17 (who beats whom), and table 20 (rank and linear correlation)."""

from imharness.tracks import Column, ColumnSpec, PairedScores, Row, Table, Value, Wins, compared, missing, ranked
from imharness_iqa.tables.data import EPS, KINDS, MEASURES, Part, Study, column

SHOWN = ("d", "r", "srocc", "psnr", "ssim", "mse", "linf", "ties", "r_without_ties", "coverage")
NO_GRADIENT = "no attack through this defense"


def tables(study: Study) -> list[Table]:
    """Return the main table and the correlations."""
    return [_main(study), _correlations(study)]


def _main(study: Study) -> Table:
    rows, columns = [], _columns()
    halves = {kind: study.attacked.where(attacker=kind) for kind in KINDS}
    for defense in study.chosen:
        values = {"srocc_clean": study.clean.of(defense).correlation(resampled=True)}
        for kind, half in halves.items():
            figures = _figures(half.of(defense), len(half.conditions))
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
        columns=columns,
        rows=tuple(ranked(rows, columns[0])),
        ranked_by=columns[0].key,
        note=study.note,
    )


def _columns() -> tuple[ColumnSpec, ...]:
    """Return table 2's columns, the fixed attack beside the adaptive one; what ranks comes first."""
    columns = [column(name, kind) for name in SHOWN for kind in KINDS]
    clean = column(
        "srocc", "clean", "srocc_clean", "Spearman correlation of f(D(x)) with the quality labels, mean over metrics."
    )
    ms = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")
    return (*columns[:4], clean, *columns[4:], ms)


def _figures(part: Part, conditions: int) -> dict[str, Value]:
    present = len(part.lines())
    if not present:
        return dict.fromkeys(SHOWN, missing(NO_GRADIENT))
    found = {name: part.mean(name) for name in SHOWN if name not in ("srocc", "coverage")}
    coverage = Value(value=100 * present / conditions, n=present)
    return {**found, "srocc": part.correlation(resampled=True), "coverage": coverage}


def comparisons(study: Study) -> list[PairedScores]:
    """Return D and SSIM by image, of fixed and of adaptive attacks: who beats whom (tables 10 and 15 to 17)."""
    found = []
    for kind in KINDS:
        scores = study.attacked.of(*study.chosen, *study.trained).where(attacker=kind).blocks_of("d", "ssim")
        if len(scores.entries) > 1:
            for name in ("d", "ssim"):
                spec = MEASURES[name]
                wins = Wins(
                    id=f"wins-{name}-{kind}",
                    title=f"Who beats whom by {spec.label}, {kind} attacks",
                    about=f"{spec.better} {spec.label} ({spec.description.rstrip('.')})",
                    families={**dict.fromkeys(study.trained, "training"), **study.groups},
                )
                shown = Column(**{**spec.model_dump(), "key": f"{kind}_{name}"}, of=name, wins=wins)
                found.append(compared(scores, shown, table="defenses", entry="defense"))
    return found


def _correlations(study: Study) -> Table:
    halves = {
        "clean": (study.clean, "f(D(x))"),
        "fixed": (study.attacked.where(attacker="fixed"), "f(D(x')), fixed attacks"),
        "adaptive": (study.attacked.where(attacker="adaptive"), "f(D(x')), adaptive attacks"),
    }
    columns = [
        ColumnSpec(
            key=f"{half}_{method}",
            label=f"{name}, {half}",
            better="higher",
            description=f"{method.title()} correlation of {text} with the quality labels, mean over conditions.",
        )
        for method, name in (("spearman", "SROCC"), ("pearson", "PLCC"))
        for half, (_, text) in halves.items()
    ]
    rows = [
        Row(
            label=defense,
            values={
                f"{half}_{method}": part.of(defense).correlation(method)
                for half, (part, _) in halves.items()
                for method in ("spearman", "pearson")
            },
        )
        for defense in study.chosen
    ]
    return Table(
        id="correlations",
        title="Rank correlation beside linear correlation",
        caption="Do both tell the same story? Scores with quality labels, mean over conditions.",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(rows),
        note=study.note,
    )

"""Of the paper: table 2, tables 10 and 15 to 17 (who beats whom), table 20 (two correlations), and figure 11."""

from imharness.leaderboard import Column, ColumnSpec, PairedScores, Row, Table, Value, Wins, compared, missing, ranked
from imharness_iqa.tables.attackers import COMMON
from imharness_iqa.tables.data import KINDS, MEASURES, PAPER, Study, column
from imharness_iqa.tables.formulas import EPS
from imharness_iqa.tables.part import Part

SHOWN = ("d", "r", "srocc", "psnr", "ssim", "mse", "linf", "identical", "ties", "r_without_ties", "coverage")
COMPARED = ("d", "r", "srocc")
"""The measures that are also shown for fixed attacks under the conditions of the adaptive ones."""
POOLED = ("dataset", "labels")
"""The facets that conditions of tables 10 and 15 to 17 do not distinguish: shares in the paper are multiples of 1/351,
which is 13 attacks at three strengths on 9 metrics. The labels belong to the data set."""
SAME = "fixed, conditions of adaptive"
REFERENCES = ("d", "dd", "r", "rd")
"""Measures against the clean score, each followed by the one against the score of the defended clean image."""
NO_GRADIENT = "no attack through this defense"


def tables(study: Study) -> list[Table]:
    """Return table 2, the correlations, and what figure 11 plots."""
    return [_main(study), _correlations(study), _references(study)]


def _main(study: Study) -> Table:
    """Return table 2."""
    rows, columns = [], _columns()
    by_attacker = {kind: study.reported.where(attacker=kind) for kind in KINDS}
    common = study.reported.where(attacker=COMMON)
    for defense in study.chosen:
        values = {"srocc_clean": study.reported_clean.of(defense).correlation(resampled=True)}
        for kind, attacked in by_attacker.items():
            figures = _figures(attacked.of(defense), len(attacked.conditions))
            values |= {f"{kind}_{name}": value for name, value in figures.items()}
        values |= {f"{COMMON}_{name}": _compared(common.of(defense), name) for name in COMPARED}
        values["ms"] = Value(value=float(study.times[defense])) if defense in study.times else missing("not timed")
        family = study.groups.get(defense)
        rows.append(Row(label=defense, values=values, facets={"family": family} if family else {}))
    return Table(
        id="defenses",
        title=f"Table 2 of {PAPER}: means over attacks, ranked by fixed ones",
        caption="Ranked as in the paper, by D of fixed attacks, which do not know the defense. Adaptive attacks "
        "know the defense and attack it and the metric together; beside them stand the fixed attacks under the same "
        "conditions (metric, attack, strength). Each image counts once, with its mean over conditions; intervals "
        "resample the photographs that images are made of. The bounds of a metric give its range, and eps is "
        f"{EPS:g}. Coverage: share of the conditions "
        f"that have a result.{study.half}",
        entry="defense",
        columns=columns,
        rows=tuple(ranked(rows, columns[0])),
        ranked_by=columns[0].key,
        note=study.note,
    )


def _columns() -> tuple[ColumnSpec, ...]:
    """Return the columns of table 2, fixed beside adaptive attacks; the column that ranks comes first."""
    columns = [column(name, kind) for name in SHOWN for kind in KINDS]
    common = [column(name, SAME, f"{COMMON}_{name}") for name in COMPARED]
    clean = column(
        "srocc", "clean", "srocc_clean", "Spearman correlation of f(D(x)) with the quality labels, mean over metrics."
    )
    ms = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")
    return (*columns[:4], *common, clean, *columns[4:], ms)


def _figures(subset: Part, conditions: int) -> dict[str, Value]:
    """Return the columns of one defense under one kind of attacker; `conditions`: how many there are in all."""
    present = len(subset.lines())
    if not present:
        return dict.fromkeys(SHOWN, missing(NO_GRADIENT))
    values = {name: _compared(subset, name) for name in SHOWN if name != "coverage"}
    return {**values, "coverage": Value(value=100 * present / conditions, n=present)}


def _compared(subset: Part, name: str) -> Value:
    if not subset.lines():
        return missing(NO_GRADIENT)
    return subset.correlation(resampled=True) if name == "srocc" else subset.mean(name)


def _references(study: Study) -> Table:
    by_attacker = {kind: study.reported.where(attacker=kind) for kind in KINDS}
    rows = [
        Row(
            label=defense,
            values={
                f"{kind}_{name}": _compared(attacked.of(defense), name)
                for kind, attacked in by_attacker.items()
                for name in REFERENCES
            },
        )
        for defense in study.chosen
    ]
    return Table(
        id="references",
        title=f"Figure 11 of {PAPER}: against the clean score, and against the defended one",
        caption="Does it matter what an attacked image is compared with? D and R compare its score behind the defense "
        "with that of the clean image, D^D and R^D with that of the clean image behind the defense. They differ for "
        "a defense that changes the scores of clean images." + study.half,
        entry="defense",
        columns=tuple(column(name, kind) for name in REFERENCES for kind in KINDS),
        rows=tuple(rows),
        note=study.note,
    )


def comparisons(study: Study) -> list[PairedScores]:
    """Return D and SSIM by image, of fixed and of adaptive attacks: who beats whom (tables 10 and 15 to 17).

    A test sees the photographs of all data sets together.
    """
    results = []
    for kind in KINDS:
        scores = study.reported.of(*study.chosen, *study.trained).where(attacker=kind).blocks_of("d", "ssim")
        if len(scores.entries) > 1:
            for name in ("d", "ssim"):
                spec = MEASURES[name]
                wins = Wins(
                    id=f"wins-{name}-{kind}",
                    title=f"Tables 10 and 15 to 17 of {PAPER}: who beats whom by {spec.label}, {kind} attacks",
                    about=f"{spec.better} {spec.label} ({spec.description.rstrip('.')})",
                    families={**dict.fromkeys(study.trained, "training"), **study.groups},
                    pooled=POOLED,
                )
                column = Column(
                    **{**spec.model_dump(), "key": f"{kind}_{name}"}, of=name, wins=wins, cluster="photograph"
                )
                results.append(compared(scores, column, table="defenses", entry="defense"))
    return results


def _correlations(study: Study) -> Table:
    """Return table 20."""
    groups = {  # results, and what of them is correlated with the labels
        "clean": (study.reported_clean, "f(D(x))"),
        "fixed": (study.reported.where(attacker="fixed"), "f(D(x')), fixed attacks"),
        COMMON: (
            study.reported.where(attacker=COMMON),
            "f(D(x')), fixed attacks under the conditions of adaptive ones",
        ),
        "adaptive": (study.reported.where(attacker="adaptive"), "f(D(x')), adaptive attacks"),
    }
    group_names = {group: SAME if group == COMMON else group for group in groups}
    columns = [
        ColumnSpec(
            key=f"{group}_{method}",
            label=f"{name}, {group_names[group]}",
            better="higher",
            description=f"{method.title()} correlation of {text} with the quality labels, mean over conditions.",
            unit="image",
        )
        for method, name in (("spearman", "SROCC"), ("pearson", "PLCC"))
        for group, (_, text) in groups.items()
    ]
    counted = {
        "conditions": (
            0,
            "Conditions with a correlation: three judged images or more have a score, and not all the same.",
        ),
        "images": (1, "Images with a score in such a condition, mean over the conditions."),
    }
    columns += [
        ColumnSpec(key=f"{group}_{key}", label=f"{key}, {group_names[group]}", decimals=decimals, description=text)
        for key, (decimals, text) in counted.items()
        for group in groups
    ]
    rows = []
    for defense in study.chosen:
        values = {}
        for group, (subset, _) in groups.items():
            entry_subset = subset.of(defense)
            values |= {f"{group}_{method}": entry_subset.correlation(method) for method in ("spearman", "pearson")}
            values |= {f"{group}_{key}": value for key, value in zip(counted, entry_subset.left(), strict=True)}
        rows.append(Row(label=defense, values=values))
    return Table(
        id="correlations",
        title=f"Table 20 of {PAPER}: rank correlation beside linear correlation",
        caption="Do both correlations agree? Scores against quality labels, mean over conditions; the sign of scores "
        f"of which less is better is reversed.{study.half}",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(rows),
        note=study.note,
    )

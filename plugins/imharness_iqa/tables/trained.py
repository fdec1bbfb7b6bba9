"""Table 3, first half: metrics that were trained further against attacks."""

from imharness.leaderboard import ColumnSpec, Row, Table
from imharness_iqa.tables.attackers import COMMON
from imharness_iqa.tables.data import BASELINE, KINDS, PAPER, Study, column

SHOWN = ("dd", "rd", "d", "r", "srocc")
COMPARED = ("dd", "d")
SROCC = "Spearman correlation of the trained metric's scores with the quality labels"


def tables(study: Study) -> list[Table]:
    """Return the table of training defenses beside the metrics as they were; no table without such defenses."""
    if not study.trained:
        return []
    metrics = study.attacked.of(*study.trained).values("metric")
    attacked, clean = (portion.where(metric=metrics) for portion in (study.attacked, study.clean))
    rows = []
    for label in [BASELINE, *sorted(study.trained)]:
        values = {"srocc_clean": clean.of(label).correlation()}
        for kind in KINDS:
            subset = attacked.of(label).where(attacker=kind)
            values |= {f"{kind}_{name}": subset.mean(name) for name in SHOWN if name != "srocc"}
            values[f"{kind}_srocc"] = subset.correlation()
        common = attacked.of(label).where(attacker=COMMON)
        values |= {f"{COMMON}_{name}": common.mean(name) for name in COMPARED}
        rows.append(Row(label=label, values=values))
    return [
        Table(
            id="trained",
            title=f"Table 3 of {PAPER}: training defenses",
            caption=f"Metrics: {', '.join(metrics)}. D^D and R^D compare the scores of the trained metric with each "
            f"other, as the published table does; D and R compare with the metric as it was. {BASELINE}: the same "
            "metrics without further training. Adaptive attacks read the gradient of the trained metric; beside them "
            "stand the fixed attacks under the same conditions.",
            entry="defense",
            columns=_columns(),
            rows=tuple(rows),
            note=study.note,
        )
    ]


def _columns() -> tuple[ColumnSpec, ...]:
    columns = [column("srocc", "clean", "srocc_clean", f"{SROCC}.")]
    for kind in reversed(KINDS):
        columns += [column(name, kind) for name in SHOWN if name != "srocc"]
        columns.append(column("srocc", kind, text=f"{SROCC}, {kind} attacks."))
    columns += [column(name, "fixed, conditions of adaptive", f"{COMMON}_{name}") for name in COMPARED]
    return tuple(columns)

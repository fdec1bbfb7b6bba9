"""The table of SemSim's own studies, whose outcomes `harness reconstruction semsim --store` puts into the results.

Sun et al. (NeurIPS 2023), tables 1 and 2 and figures 7 and 9. Each outcome is one training, so that it has no interval.
"""

from collections.abc import Sequence

from imharness.leaderboard import ColumnSpec, Row, Table, Value, missing
from imharness.tracks import Query
from imharness_reconstruction.semsim_studies import Outcome

STUDY = "study"
FIGURES = ("rho", "tau", "models", "originals")


def rows_of(study: str, results: Sequence[Outcome]) -> dict[str, list]:
    """Return the outcomes of a study as columns of one length; rho and tau are NaN where a ranking is constant."""
    return {
        STUDY: [study] * len(results),
        "setting": [outcome.setting for outcome in results],
        "measure": [outcome.metric for outcome in results],
        **{
            figure: [float("nan") if (v := getattr(outcome, figure)) is None else float(v) for outcome in results]
            for figure in FIGURES
        },
    }


def studied(query: Query) -> list[Table]:
    """Return one table per study that was imported, in alphabetical order."""
    if "external" not in query.steps or STUDY not in query("SELECT * FROM external LIMIT 0"):
        return []
    columns = query(f"SELECT {STUDY}, setting, measure, {', '.join(FIGURES)} FROM external WHERE {STUDY} IS NOT NULL")
    lines = list(zip(*(columns[name] for name in (STUDY, "setting", "measure", *FIGURES)), strict=True))
    return [_table(name, [line[1:] for line in lines if line[0] == name]) for name in sorted(set(columns[STUDY]))]


def _table(study: str, lines: Sequence[Sequence]) -> Table:
    columns = [
        ColumnSpec(key=f"|{name}|", label=f"|{name}|", description=f"Size of {name}, as the paper prints it.")
        for name in ("rho", "tau")
    ]
    for name, text in (("rho", "Spearman"), ("tau", "Kendall")):
        sentence = f"{text} correlation of the ranking of models with that by the judges; 1 for the same order."
        columns.append(ColumnSpec(key=name, label=name, description=sentence, better="higher"))
    for name, sentence in (
        ("models", "Protected models that were ranked."),
        ("originals", "Originals whose annotated reconstructions SemSim was trained on."),
    ):
        columns.append(ColumnSpec(key=name, label=name, description=sentence, decimals=0))
    rows = []
    for setting, measure, *figures in lines:
        values = {n: _value(float(v)) for n, v in zip(FIGURES, figures, strict=True)}
        sizes = {f"|{n}|": v if (v := values[n]).value is None else Value(value=abs(v.value)) for n in ("rho", "tau")}
        rows.append(Row(label=f"{setting}: {measure}", values=sizes | values))
    return Table(
        id=f"semsim-{study}",
        title=f"A study of SemSim: {study}",
        caption="Study table (SemSim, tables 1 and 2, figures 7 and 9): SemSim is trained in each setting on annotated "
        "reconstructions, and ranks protected models on others. Each row is one training; it has no interval.",
        entry="setting and metric",
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _value(number: float) -> Value:
    return missing("a ranking is constant") if number != number else Value(value=number)

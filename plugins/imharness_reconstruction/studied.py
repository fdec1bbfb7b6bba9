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
    columns: dict[str, list] = {
        STUDY: [study] * len(results),
        "setting": [outcome.setting for outcome in results],
        "measure": [outcome.metric for outcome in results],
    }
    for figure in FIGURES:
        values = [getattr(outcome, figure) for outcome in results]
        columns[figure] = [float("nan") if value is None else float(value) for value in values]
    return columns


def studied(query: Query) -> list[Table]:
    """Return one table for each study that the results have, in alphabetical order."""
    if "external" not in query.steps or STUDY not in query("SELECT * FROM external LIMIT 0"):
        return []
    columns = query(f"SELECT {STUDY}, setting, measure, {', '.join(FIGURES)} FROM external WHERE {STUDY} IS NOT NULL")
    lines = list(zip(*(columns[name] for name in (STUDY, "setting", "measure", *FIGURES)), strict=True))
    return [_table(name, [line[1:] for line in lines if line[0] == name]) for name in sorted(set(columns[STUDY]))]


def _table(study: str, lines: Sequence[Sequence]) -> Table:
    """Return the table of a study; each line is (setting, measure, *FIGURES)."""
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
        values = {name: _value(float(figure)) for name, figure in zip(FIGURES, figures, strict=True)}
        sizes = {}
        for name in ("rho", "tau"):
            number = values[name].value
            sizes[f"|{name}|"] = values[name] if number is None else Value(value=abs(number))
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
    """Return a figure as the value of a cell; NaN says that a ranking is constant."""
    return missing("a ranking is constant") if number != number else Value(value=number)

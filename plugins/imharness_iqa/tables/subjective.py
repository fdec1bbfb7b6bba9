"""What people say of defended images, beside D: figure 5 and appendix A.2 of Gushchin et al. (2025).

`harness annotate --kind better` asks which of two defended images is better, and `harness annotate import` brings the
Bradley-Terry log-strengths of each evaluation, which is one source image, attack and metric. They are averaged over the
evaluations. D is the mean over the same images under the same attacks.
"""

from collections.abc import Mapping, Sequence, Set

import numpy as np

from imharness.leaderboard import ColumnSpec, NotTestable, Row, Table, Value, correlate, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.tables.data import BASELINE, MEASURES, UNIT, Study

PLACE = ("dataset", "metric", "strength", "attack", "attacker")
"""The facets of a condition."""
FEWEST = 3
"""The fewest defenses of which a rank correlation is shown."""


def tables(query: Query, study: Study) -> list[Table]:
    """Return the table of the defenses by people's choices, the best first; none without choices."""
    if "external" not in query.steps or "bradley_terry" not in query("SELECT * FROM external LIMIT 0"):
        return []
    answers = query(
        f"SELECT {', '.join(PLACE)}, defense, {UNIT} AS unit, bradley_terry, votes FROM external "
        "WHERE bradley_terry IS NOT NULL ORDER BY ALL"
    )
    lines = list(zip(*answers.values(), strict=True))
    strengths: dict[str, list[float]] = {}
    objective: dict[str, list[float]] = {}
    photographs: dict[str, list[str]] = {}
    scores = _objective(study, {_asked(line[: len(PLACE)], line[len(PLACE)]) for line in lines})
    made_of = dict(zip(_units(study), study.attacked.photographs, strict=True))
    for *setting, defense, unit, strength, _ in lines:
        strengths.setdefault(defense, []).append(float(strength))
        photographs.setdefault(defense, []).append(str(made_of.get(unit, unit)))
        objective.setdefault(defense, []).append(scores.get((*_asked(setting, defense), unit), np.nan))
    rows = []
    for defense, ratings in strengths.items():
        d, sources = np.array(objective[defense]), np.array(photographs[defense])
        measured = np.isfinite(d)
        values = {
            "people": mean_value(np.array(ratings), sources),
            "d": mean_value(d[measured], sources[measured]) if measured.any() else missing("not scored in this run"),
            "evaluations": Value(value=float(len(ratings))),
        }
        rows.append(Row(label=defense, values=values))
    columns = (
        ColumnSpec(
            key="people",
            label="Bradley-Terry score",
            better="higher",
            description="Mean log-strength over evaluations; a difference of 1 is odds of e to 1 to be chosen.",
        ),
        MEASURES["d"].model_copy(update={"key": "d", "description": "D on the same images under the same attacks."}),
        ColumnSpec(key="evaluations", label="evaluations", decimals=0, description="Images, attacks and metrics."),
    )
    evaluations = {(*setting, unit) for *setting, _, unit, _, _ in lines}
    images = {(*setting, defense, unit) for *setting, defense, unit, _, _ in lines}
    return [
        Table(
            id="subjective",
            title="Defenses by what people choose, beside D",
            caption="Study table (figure 5): people chose the better of two defended images. "
            f"{len(images)} images in {len(evaluations)} evaluations, with at least {int(min(answers['votes']))} votes "
            "on each pair that count. Attackers: "
            f"{', '.join(sorted(set(answers['attacker'])))}. {_agreement(rows)}",
            entry="defense",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            ranked_by="people",
            note=study.note,
        )
    ]


def _units(study: Study) -> list[str]:
    """Return the names of all units, in the order of `Part.photographs`."""
    return sorted({str(name) for units in study.attacked.blocks.units for name in units})


def _asked(setting: Sequence[str], defense: str) -> tuple[str, ...]:
    """Return the condition and the defense; without a defense, the attacker is always called the fixed one."""
    return (*setting[:-1], "fixed" if defense == BASELINE else setting[-1], defense)


def _objective(study: Study, wanted: Set[tuple[str, ...]]) -> Mapping[tuple[str, ...], float]:
    """Return (*condition, defense, unit) -> D of a single image, for the wanted conditions and defenses."""
    blocks, scores = study.attacked.blocks, {}
    for c, row in study.attacked.lines():
        setting = (*(blocks.conditions[c][fact] for fact in PLACE), blocks.entries[row])
        if setting not in wanted:
            continue
        for unit, value in zip(blocks.units[c], blocks.values["d"][c][row], strict=True):
            scores[(*setting, str(unit))] = float(value)
    return scores


def _agreement(rows: Sequence[Row]) -> str:
    """Return in words how people's order of the defenses agrees with that by D, of which less is better."""
    both = [
        (p.value, d.value)
        for row in rows
        if (p := row.values["people"]).value is not None and (d := row.values["d"]).value is not None
    ]
    if len(both) < FEWEST:
        return f"A rank correlation with D needs {FEWEST} defenses."
    people, d = (np.array(column, dtype=float) for column in zip(*both, strict=True))
    try:
        rho, tau = (correlate(people, -d, method).value for method in ("spearman", "kendall"))
    except NotTestable as error:
        return f"There is no rank correlation with D: {error}."
    return (
        f"Rank correlation of the {len(both)} defenses with less D: Spearman {rho:.2f}, Kendall {tau:.2f}; 1 means "
        "that people choose what D calls robust."
    )

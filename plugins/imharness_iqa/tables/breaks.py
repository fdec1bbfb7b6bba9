"""Which attack breaks which defense, and which metric: pairs reversed at the worst strength, in the order of ranks."""

from collections.abc import Mapping, Sequence

from imharness.leaderboard import EVIDENCE_ATTACK, Contest, Row, Table, Value, missing
from imharness_iqa.tables.data import BASELINE, MEASURES, Study
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.worst import over

CAPTION = (
    "Pairs reversed, %, as in the ranking: the worst strength and the worst attacker of each image, whether it knows "
    "the defense or not, mean over {mean}. "
)


def tables(study: Study, rules: Contest, order: Sequence[str], gradients: Mapping[str, str]) -> list[Table]:
    """Return attacks by defense and by metric.

    `order`: the defenses, the best first; `gradients`: see `worst.gradients`.
    """
    subset = Part.whole(over(rules.scores, "strength", "attacker", "type", "labels"), study.sources)
    reversed_by_attack = {
        attack: _mean(subset.where(attack=attack)) for attack in subset.values("attack") if attack != EVIDENCE_ATTACK
    }
    attacks = sorted(reversed_by_attack, key=lambda attack: (-reversed_by_attack[attack], attack))
    plain = subset.of(BASELINE)
    reversed_by_metric = {metric: _mean(plain.where(metric=metric)) for metric in plain.values("metric")}
    metrics = sorted(reversed_by_metric, key=lambda metric: (-reversed_by_metric[metric], metric))
    half = study.half
    heatmaps = [
        _heatmap(
            "breaks",
            "Which attack breaks which defense",
            "defense",
            order,
            attacks,
            study.note,
            CAPTION.format(mean="metrics and data sets") + "Defenses stand in the order of the ranking, attacks in "
            f"that of their means, the strongest first.{half}",
            {defense: {attack: subset.of(defense).where(attack=attack) for attack in attacks} for defense in order},
            gradients,
        ),
        _heatmap(
            "attacks",
            "Which attack moves which metric",
            "attack",
            attacks,
            metrics,
            study.note,
            CAPTION.format(mean="data sets") + "There is no defense here. Attacks stand in the order of the pairs that "
            f"they reverse behind all defenses, metrics in that of the pairs that attacks reverse, the most "
            f"first.{half}",
            {attack: {metric: plain.where(attack=attack, metric=metric) for metric in metrics} for attack in attacks},
            {},
        ),
    ]
    return [table for table in heatmaps if table.columns]


def _mean(subset: Part) -> float:
    mean_score = subset.mean("score").value
    return 0.0 if mean_score is None else mean_score


def _heatmap(
    id: str,
    title: str,
    entry: str,
    rows: Sequence[str],
    columns: Sequence[str],
    note: str,
    caption: str,
    subsets: Mapping[str, Mapping[str, Part]],
    gradients: Mapping[str, str],
) -> Table:
    """Return a heat map; `subsets`: label of a row -> label of a column -> the results of which it has the mean."""
    cells = {row: {name: _cell(subsets[row][name]) for name in columns} for row in rows}
    numbers = [value.value for row_cells in cells.values() for value in row_cells.values() if value.value is not None]
    specs = (
        MEASURES["reversed"].model_copy(update={"key": name, "label": name, "decimals": 1, "better": ""})
        for name in columns
    )
    return Table(
        id=id,
        title=title,
        caption=caption,
        entry=entry,
        columns=tuple(specs),
        note=note,
        shading=max([1.0, *numbers]),
        rows=tuple(
            Row(label=row, values=values, facets={"gradient": gradients[row]} if row in gradients else {})
            for row, values in cells.items()
        ),
    )


def _cell(subset: Part) -> Value:
    return subset.mean("score") if subset.lines() else missing("not attacked")

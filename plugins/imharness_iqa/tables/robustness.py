"""How robust each metric itself is: what attackers gain without a defense, in units of its spread on clean images."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.tables import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness_iqa.tables.data import BASELINE, MEASURES, Study, image_column
from imharness_iqa.tables.order import Others, Ruler

UNIT = "interquartile range of the scores of clean images"
SCORES = ("spread", "lowest", "highest", "lower", "upper")


def tables(study: Study) -> list[Table]:
    """Return the table of the metrics, the most robust first; none without results of attacks on them."""
    blocks = study.reported.blocks
    chosen = [
        c
        for c in study.reported.conditions
        if blocks.conditions[c]["attacker"] == "fixed" and BASELINE in blocks.entries
    ]
    metrics = sorted({blocks.conditions[c]["metric"] for c in chosen})
    attacks = sorted({blocks.conditions[c]["attack"] for c in chosen})
    ruler = Ruler.of(study.reported_clean)
    rows = [Row(label=metric, values=_values(study, ruler, metric, chosen)) for metric in metrics]
    if not rows:
        return []
    columns = _columns(attacks)
    return [
        Table(
            id="metrics",
            title="How robust is each metric itself?",
            caption="What attackers gain on a metric without any defense, in the direction that it calls better. The "
            f"unit is the {UNIT}, which is measured, and so does not depend on the bounds that a metric declares: by 1 "
            "an image passes about from the lower quarter of clean images to the upper one. All metrics meet the same "
            f"attacks on the same images.{study.half}",
            entry="metric",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            ranked_by="gain",
            note=study.note,
        )
    ]


def _columns(attacks: Sequence[str]) -> tuple[ColumnSpec, ...]:
    worst = "The strongest attack on each image counts."
    texts = {
        "spread": f"The {UNIT}, in the unit of the metric.",
        "lowest": "The lowest score of a clean image.",
        "highest": "The highest score of a clean image.",
        "lower": "The lower bound that the metric declares.",
        "upper": "The upper bound that the metric declares.",
    }
    return (
        image_column("gain", "gain, spreads, worst attack", "lower", 2, f"Gain in units of the {UNIT}. {worst}"),
        MEASURES["turned"].model_copy(
            update={
                "label": "pairs turned %, worst attack",
                "description": "Share of the clean images of other photographs whose order with an image the strongest "
                "attack on that image changes.",
            }
        ),
        *(
            image_column(f"gain {own}", f"gain, spreads, {own}", "lower", 2, f"Gain of {own}, its strongest setting.")
            for own in attacks
        ),
        image_column("share", "gain %, worst attack", "", 2, "The same in % of the bounds that the metric declares."),
        *(ColumnSpec(key=key, label=key, description=texts[key]) for key in SCORES),
    )


def _values(study: Study, ruler: Ruler, metric: str, chosen: Sequence[int]) -> Mapping[str, Value]:
    blocks = study.reported.blocks
    row = blocks.entries.index(BASELINE)
    gains: dict[str, dict[str, list[float]]] = {}
    turned, shares, spreads = dict[str, list[float]](), dict[str, list[float]](), dict[str, float]()
    scores, bounds = list[np.ndarray](), (np.nan, np.nan)
    for c in chosen:
        facts = blocks.conditions[c]
        if facts["metric"] != metric:
            continue
        units = blocks.units[c].astype(str)
        dataset = str(study.reported.sets[study.reported.places[c][0]])
        others = ruler.others.get((dataset, metric), {}).get(BASELINE)
        start, end = (np.asarray(blocks.values[name][c][row], dtype=float) for name in ("defended", "score"))
        sign, lower, upper = (np.asarray(blocks.about[name][c], dtype=float) for name in ("sign", "lower", "upper"))
        bounds = float(lower[0]), float(upper[0])
        spread = _spread(others, bounds)
        if others is not None and dataset not in spreads:
            spreads[dataset] = spread
            scores.append(others.scores)
        moved = sign * (end - start)
        passed = ruler.turned((dataset, metric), [BASELINE], blocks.units[c], start[None], end[None])[0]
        for found, numbers in (
            (gains.setdefault("", {}), moved / spread),
            (gains.setdefault(facts["attack"], {}), moved / spread),
            (turned, passed),
            (shares, 100 * moved / (upper - lower)),
        ):
            for unit, number in zip(units, numbers, strict=True):
                found.setdefault(unit, []).append(float(number))
    values = {f"gain {attack}".strip(): _mean(study, own, NO_SPREAD) for attack, own in gains.items()}
    values |= {"turned": _mean(study, turned, NO_SPREAD), "share": _mean(study, shares, "no finite score")}
    if scores:
        joined = np.concatenate(scores)
        values |= {
            "spread": Value(value=float(np.mean(list(spreads.values())))),
            "lowest": Value(value=float(joined.min())),
            "highest": Value(value=float(joined.max())),
        }
    return values | {"lower": Value(value=bounds[0]), "upper": Value(value=bounds[1])}


NO_SPREAD = "its scores of clean images do not differ, or are of one photograph"


def _spread(others: Others | None, bounds: tuple[float, float]) -> float:
    """Return the spread of clean scores, NaN where they do not differ."""
    found = np.nan if others is None else others.spread()
    return found if found > 0 else np.nan


def _mean(study: Study, found: Mapping[str, Sequence[float]], none: str) -> Value:
    """Return the mean over images of the largest number of each, with an interval by photograph."""
    most = {unit: float(np.max(known)) for unit, own in found.items() if len(known := np.array(own)[np.isfinite(own)])}
    if not most:
        return missing(none)
    return mean_value(list(most.values()), [study.sources[unit][0] for unit in most])

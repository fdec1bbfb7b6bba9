"""How robust each metric itself is: what attackers gain without a defense, in units of the spread of clean scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.leaderboard import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness_iqa.tables.data import BASELINE, MEASURES, Study, image_column
from imharness_iqa.tables.order import Ruler
from imharness_iqa.tables.part import Part

UNIT = "interquartile range of the scores of clean images"
NO_SPREAD = "its scores of clean images do not differ, or are of one photograph"
SCORES = ("spread", "lowest", "highest", "lower", "upper")
Numbers = dict[str, list[float]]
"""Name of an image -> its number under each condition."""


def tables(study: Study) -> list[Table]:
    """Return the table of the metrics, the most robust first; none without results of attacks on them."""
    plain = study.attacked.where(attacker="fixed").of(BASELINE)
    if not plain.lines():
        return []
    ruler = Ruler.of(study.clean)
    clean = study.clean.of(BASELINE)
    rows = [
        Row(
            label=metric,
            values={
                **_values(study, ruler, plain.where(metric=metric), metric),
                "srocc": clean.where(metric=metric).correlation(resampled=True),
            },
        )
        for metric in plain.values("metric")
    ]
    columns = _columns(plain.values("attack"))
    return [
        Table(
            id="metrics",
            title="How robust is each metric itself?",
            caption="What attackers gain on a metric without any defense, in the direction that it calls better. The "
            f"unit is the {UNIT}, which is measured, and so does not depend on the bounds that a metric declares: by 1 "
            "an image passes about from the lower quarter of clean images to the upper one. All metrics meet the same "
            "attacks on the same images.",
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
        MEASURES["reversed"].model_copy(
            update={
                "label": "pairs reversed %, worst attack",
                "description": "Share of the clean images of other photographs whose order with an image the strongest "
                "attack on that image changes.",
            }
        ),
        MEASURES["srocc"].model_copy(
            update={
                "label": "SROCC, clean",
                "description": "Spearman correlation of the scores of clean images with the quality labels. A metric "
                "that says nothing of quality can be robust, too.",
            }
        ),
        *(
            image_column(
                f"gain {attack}", f"gain, spreads, {attack}", "lower", 2, f"Gain of {attack}, its strongest setting."
            )
            for attack in attacks
        ),
        image_column(
            "share",
            "gain %, worst attack",
            "",
            2,
            f"Gain in % of the range between the bounds that the metric declares. {worst}",
        ),
        *(ColumnSpec(key=key, label=key, description=texts[key]) for key in SCORES),
    )


def _values(study: Study, ruler: Ruler, plain: Part, metric: str) -> Mapping[str, Value]:
    """Return the numbers of one metric by column; `plain` has the attacks on it without a defense."""
    numbers_by_column: dict[str, Numbers] = {}
    for c in plain.conditions:
        for key, numbers in _effects(ruler, plain, metric, c).items():
            by_unit = numbers_by_column.setdefault(key, {})
            for unit, number in zip(plain.blocks.units[c].tolist(), numbers.tolist(), strict=True):
                by_unit.setdefault(unit, []).append(number)
    return {
        **{key: _mean(study, numbers_by_unit) for key, numbers_by_unit in numbers_by_column.items()},
        **_clean_values(ruler, plain, metric),
    }


def _effects(ruler: Ruler, plain: Part, metric: str, c: int) -> dict[str, np.ndarray]:
    """Return by column what the attack of one condition does to each image ``(units,)``."""
    blocks, (row,) = plain.blocks, plain.rows
    start, end = (np.asarray(blocks.values[name][c][row], dtype=float) for name in ("defended", "score"))
    sign, lower, upper = (np.asarray(blocks.about[name][c], dtype=float) for name in ("sign", "lower", "upper"))
    dataset, gain = plain.dataset(c), sign * (end - start)
    gain_in_spreads = gain / _spread(ruler, dataset, metric, float(upper[0] - lower[0]))
    reversed_shares = ruler.reversed_shares((dataset, metric), [BASELINE], blocks.units[c], start[None], end[None])
    return {
        "reversed": reversed_shares[0],
        "share": 100 * gain / (upper - lower),
        "gain": gain_in_spreads,
        f"gain {blocks.conditions[c]['attack']}": gain_in_spreads,
    }


def _clean_values(ruler: Ruler, plain: Part, metric: str) -> dict[str, Value]:
    """Return the columns `SCORES`: what clean images of all data sets score, and the bounds of the metric."""
    datasets = list(dict.fromkeys(plain.dataset(c) for c in plain.conditions))
    lower, upper = (float(plain.blocks.about[name][plain.conditions[0]][0]) for name in ("lower", "upper"))
    spread = np.mean([_spread(ruler, dataset, metric, upper - lower) for dataset in datasets])
    scores = np.concatenate([ruler.others[dataset, metric][BASELINE].scores for dataset in datasets])
    numbers = (spread, scores.min(), scores.max(), lower, upper)
    return {key: _single(float(number)) for key, number in zip(SCORES, numbers, strict=True)}


def _spread(ruler: Ruler, dataset: str, metric: str, span: float) -> float:
    return float(ruler.spreads((dataset, metric), [BASELINE], span)[0])


def _single(value: float) -> Value:
    return missing(NO_SPREAD) if np.isnan(value) else Value(value=value)


def _mean(study: Study, numbers_by_unit: Numbers) -> Value:
    """Return the mean over images of the largest number of each, with an interval by photograph."""
    most = {
        unit: np.max(finite)
        for unit, values in numbers_by_unit.items()
        if len(finite := np.array(values)[np.isfinite(values)])
    }
    if not most:
        return missing(NO_SPREAD)
    return mean_value(list(most.values()), [study.sources[unit][0] for unit in most])

"""The four scores of each photograph: of the image, attacked, defended, and attacked and defended."""

import numpy as np

from imharness.tracks import Query
from imharness_iqa.tables.data import UNIT, Study
from imharness_iqa.tables.formulas import Columns
from imharness_iqa.tables.naming import Naming, Where

_ATTACKED = f"SELECT dataset, metric, strength, method AS attack, {UNIT} AS unit, score FROM attack WHERE NOT adaptive"
_SETTING = ("dataset", "metric", "strength")


def photograph_means(query: Query, study: Study) -> dict[str, Columns]:
    """Return by data set the names of its photographs (``name``) and their four scores, ``(photographs,)`` each.

    Scores are shares of the range of the metric, 1 the best. Each is the mean over fixed attacks, metrics, strengths,
    defenses and the images made of the photograph, where all four scores are finite. Photographs without such scores
    are left out.
    """
    attacked = query.blocks(_ATTACKED, entry="attack", by=_SETTING, unit="unit")
    positions = {tuple(setting.values()): c for c, setting in enumerate(attacked.conditions)}
    subset, naming, sums = study.attacked, Naming(), dict[str, Columns]()
    names, codes = np.unique(subset.photographs.astype(str), return_inverse=True)
    for c, condition in enumerate(subset.blocks.conditions):
        before = positions.get(tuple(condition[name] for name in _SETTING))
        present = before is not None and condition["attack"] in attacked.entries
        if before is None or not present or condition["attacker"] != "fixed" or condition["type"] == "external":
            continue
        numbers = attacked.values["score"][before][attacked.entries.index(condition["attack"])]
        where = naming.where(attacked.units[before], naming.joined([subset.blocks.units[c]]))
        facts = {name: about[c] for name, about in subset.blocks.about.items()}
        scores = {name: subset.blocks.values[name][c] for name in ("defended", "score")}
        scores |= {"source": facts["source"], "attacked": _placed(numbers, where, len(facts["source"]))}
        totals = sums.setdefault(condition["dataset"], {name: np.zeros(len(names)) for name in (*scores, "count")})
        for name, unit_sums in _sums(scores, facts).items():
            totals[name] += np.bincount(codes[subset.places[c]], unit_sums, len(names))
    return {dataset: _means(names, dataset_sums) for dataset, dataset_sums in sums.items()}


def _placed(numbers: np.ndarray, where: Where, size: int) -> np.ndarray:
    """Return numbers in an array over `size` units, NaN where there is none; `where`: see `Where`."""
    if where is None:
        return numbers
    aligned = np.full(size, np.nan)
    aligned[where[1]] = numbers[where[0]]
    return aligned


def _sums(scores: Columns, facts: Columns) -> Columns:
    """Return the sum of each score over the defenses ``(units,)``, and as ``count`` the number of these defenses.

    A defense takes part where all four scores of a unit are finite. `scores`: ``(defenses, units)``, or ``(units,)`` if
    they do not depend on the defense; `facts`: bounds of the metric and the sign ``(units,)``.
    """
    mask = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(array) for array in scores.values())))
    count, span = mask.sum(axis=0), facts["upper"] - facts["lower"]
    sums: dict[str, np.ndarray] = {"count": count}
    for name, values in scores.items():
        share = 0.5 + facts["sign"] * ((values.astype(float) - facts["lower"]) / span - 0.5)
        if np.ndim(values) == 1:
            sums[name] = np.where(count > 0, share, 0) * count
        else:
            sums[name] = np.where(mask, share, 0).sum(axis=0)
    return sums


def _means(names: np.ndarray, sums: Columns) -> Columns:
    """Return the names of photographs that have scores, and their mean scores."""
    some = sums["count"] > 0
    return {
        "name": names[some],
        **{name: array[some] / sums["count"][some] for name, array in sums.items() if name != "count"},
    }

"""The four scores of each photograph: of the image, attacked, defended, and attacked and defended."""

import numpy as np

from imharness.tracks import Query
from imharness_iqa.tables.data import UNIT, Columns, Study
from imharness_iqa.tables.naming import Naming, Where

_ATTACKED = f"SELECT dataset, metric, strength, method AS attack, {UNIT} AS unit, score FROM attack WHERE NOT adaptive"
_SETTING = ("dataset", "metric", "strength")


def photograph_means(query: Query, study: Study) -> dict[str, Columns]:
    """Return for each data set the names of its photographs and their scores over the range of the metric, 1 the best.

    Each is the mean over fixed attacks, metrics, strengths, defenses and the images made of the photograph, where all
    four scores are finite. Photographs without such scores are left out.
    """
    attacked = query.blocks(_ATTACKED, entry="attack", by=_SETTING, unit="unit")
    place = {tuple(own.values()): c for c, own in enumerate(attacked.conditions)}
    part, naming, sums = study.attacked, Naming(), dict[str, Columns]()
    names, codes = np.unique(part.photographs.astype(str), return_inverse=True)
    for c, own in enumerate(part.blocks.conditions):
        before = place.get(tuple(own[name] for name in _SETTING))
        known = before is not None and own["attack"] in attacked.entries
        if before is None or not known or own["attacker"] != "fixed" or own["type"] == "external":
            continue
        numbers = attacked.values["score"][before][attacked.entries.index(own["attack"])]
        where = naming.where(attacked.units[before], naming.joined([part.blocks.units[c]]))
        facts = {name: about[c] for name, about in part.blocks.about.items()}
        scores = {name: part.blocks.values[name][c] for name in ("defended", "score")}
        scores |= {"source": facts["source"], "attacked": _placed(numbers, where, len(facts["source"]))}
        found = sums.setdefault(own["dataset"], {name: np.zeros(len(names)) for name in (*scores, "count")})
        for name, own_sums in _sums(scores, facts).items():
            found[name] += np.bincount(codes[part.places[c]], own_sums, len(names))
    return {dataset: _means(names, found) for dataset, found in sums.items()}


def _placed(numbers: np.ndarray, where: Where, size: int) -> np.ndarray:
    """Return the numbers of other units at their places among `size` units, NaN where there is none."""
    if where is None:
        return numbers
    found = np.full(size, np.nan)
    found[where[1]] = numbers[where[0]]
    return found


def _sums(scores: Columns, facts: Columns) -> Columns:
    """Return the sum of each score over defenses ``(units,)`` where all are finite, and the count of such defenses.

    `scores`: ``(units,)`` or ``(defenses, units)``; `facts`: bounds of the metric and the sign ``(units,)``.
    """
    kept = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(own) for own in scores.values())))
    count, span = kept.sum(axis=0), facts["upper"] - facts["lower"]
    found: dict[str, np.ndarray] = {"count": count}
    for name, own in scores.items():
        share = 0.5 + facts["sign"] * ((own.astype(float) - facts["lower"]) / span - 0.5)
        one = np.ndim(own) == 1
        found[name] = np.where(count > 0, share, 0) * count if one else np.where(kept, share, 0).sum(axis=0)
    return found


def _means(names: np.ndarray, sums: Columns) -> Columns:
    """Return the names of photographs that have scores, and their mean scores."""
    some = sums["count"] > 0
    return {
        "name": names[some],
        **{name: own[some] / sums["count"][some] for name, own in sums.items() if name != "count"},
    }

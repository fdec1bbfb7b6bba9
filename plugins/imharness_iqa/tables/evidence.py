"""What attacked images that somebody handed in do to the order of others: evidence for the contest, image by image."""

from collections.abc import Iterator, Mapping

import numpy as np
import scipy

from imharness.leaderboard import Evidence
from imharness.tracks import Query
from imharness_iqa.tables.data import UNIT, Study
from imharness_iqa.tables.order import Key, Ruler

LEVEL = 0.05
"""How often a piece of evidence against a random defense may count by chance, although its images change nothing."""
_ROWS = f"""
SELECT e.dataset, e.metric, e.defense, e.evidence, c.unit, e.draw, e.score, c.score AS source, c.sign
FROM evidence e JOIN (SELECT *, {UNIT} AS unit FROM clean) c USING (dataset, metric, name)
ORDER BY ALL
"""


def evidence_of(query: Query, study: Study, ruler: Ruler, spans: Mapping[str, float]) -> Iterator[Evidence]:
    """Yield what was handed in against each defense, on the images that are reported.

    The numbers of an image are means over the draws of a random defense. `Evidence.sure` is what the draws prove, see
    `least`. `spans`: the range of each metric.
    """
    if "evidence" not in query.steps:
        return
    rows = query(_ROWS)
    pieces = list(zip(*(rows[name] for name in ("dataset", "metric", "defense", "evidence")), strict=True))
    for piece in dict.fromkeys(pieces):
        _, metric, defense, _ = piece
        of_piece = np.array([other == piece for other in pieces])
        columns = {name: values[of_piece] for name, values in rows.items()}
        units, first, unit_of_row = np.unique(columns["unit"].astype(str), return_index=True, return_inverse=True)
        key = study.sources[units[0]][1], metric
        score = np.full((int(columns["draw"].max()) + 1, len(units)), np.nan)  # (draws, units)
        score[columns["draw"], unit_of_row] = columns["score"]
        clean = _clean(study, key, defense, units)
        labels = [defense] * len(score)
        share = ruler.reversed_shares(key, labels, units.astype(object), np.broadcast_to(clean, score.shape), score)
        moved, span = score.mean(axis=0) - clean, spans[metric]
        spread = ruler.spreads(key, [defense], span)[0]
        yield Evidence(
            {"dataset": key[0], "metric": metric},
            defense,
            units.astype(object),
            {
                "reversed": share.mean(axis=0),
                "score": score.mean(axis=0),
                "defended": clean,
                "dd": 100 * np.abs(moved) / span,
                "gain": 100 * columns["sign"][first] * moved / span,
                "shift": np.abs(moved) / spread,
                "d": 100 * np.abs(score.mean(axis=0) - columns["source"][first]) / span,
            },
            least(share),
        )


def least(share: np.ndarray) -> np.ndarray:
    """Return how many pairs draws ``(draws, n)`` prove that each image reverses ``(n,)``, %.

    The result of a defense that is not random has one draw, which is returned as it is. For a random defense it is the
    mean minus a margin by Student's t, such that one further draw of the same distribution lies below it with
    probability ``LEVEL / n``: what the store has of the image is one draw, too. By Bonferroni's inequality the level of
    all n images together is then `LEVEL`.
    """
    draws, n = share.shape
    if draws == 1:
        return share[0]
    error = share.std(axis=0, ddof=1) * np.sqrt(1 + 1 / draws)
    return share.mean(axis=0) - float(scipy.stats.t.ppf(1 - LEVEL / n, draws - 1)) * error


def _clean(study: Study, key: Key, defense: str, units: np.ndarray) -> np.ndarray:
    """Return the defended clean scores f(D(x)) that the ranking uses ``(n,)``; NaN for images that are not reported."""
    blocks, scores = study.reported_clean.blocks, np.full(len(units), np.nan)
    for c in study.reported_clean.conditions:
        names = blocks.units[c].astype(str)
        if blocks.conditions[c]["metric"] == key[1] and len(names) and study.sources[names[0]][1] == key[0]:
            mask = np.isin(units, names)
            at = np.searchsorted(names, units[mask])
            scores[mask] = np.fmax(scores[mask], blocks.values["score"][c][blocks.entries.index(defense), at])
    return scores

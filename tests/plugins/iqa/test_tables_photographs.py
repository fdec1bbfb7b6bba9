"""The mean scores of photographs equal those of a plain SQL join of all rows."""

import itertools

import numpy as np
import pytest
from tests.iqa_rows import rows

from imharness_iqa.tables.photographs import photograph_means

SCALED = ", ".join(
    f"avg(0.5 + c.sign * (({table}.score - c.lower) / (c.upper - c.lower) - 0.5)) AS {name}"
    for table, name in (("c", "source"), ("a", "attacked"), ("d", "defended"), ("e", "score"))
)
JOINED = f"""
SELECT e.dataset, 'd · ' || c.photograph AS name, {SCALED}
FROM evaluate e
JOIN clean c USING (dataset, metric, name)
JOIN defended d USING (dataset, metric, defense, name)
JOIN attack a ON a.dataset = e.dataset AND a.metric = e.metric AND a.name = e.name AND a.method = e.method
     AND a.strength = e.strength AND NOT a.adaptive
WHERE NOT e.adaptive AND isfinite(c.score) AND isfinite(a.score) AND isfinite(d.score) AND isfinite(e.score)
GROUP BY ALL ORDER BY ALL
"""


def crossed(rng: np.random.Generator) -> dict[str, list]:
    """Return rows of everything with everything, some of them left out, some without a number."""
    images = {(dataset, f"i{k}"): f"p{k // 2}" for dataset in ("d[draw=0]", "d[draw=1]") for k in range(12)}
    facets = images, ("m", "n"), ("a", "b"), ("weak", "strong"), (False, True), ("harness/none", "x/one", "x/two")
    chosen = [combination for combination in itertools.product(*facets) if rng.random() < 0.7]
    n = len(chosen)
    where, metrics, methods, strengths, adaptive, defenses = zip(*chosen, strict=True)
    source = {pair: rng.uniform(0, 10) for pair in itertools.product(images, ("m", "n"))}
    source[next(iter(source))] = np.nan
    gaps = [np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 10, n)).tolist() for _ in range(3)]
    columns = {"dataset": [d for d, _ in where], "name": [name for _, name in where], "metric": list(metrics)}
    columns |= {"method": list(methods), "strength": list(strengths), "adaptive": list(adaptive)}
    columns |= {"source": [source[pair] for pair in zip(where, metrics, strict=True)], "score": gaps[0]}
    columns |= {"photograph": [images[pair] for pair in where], "defense": list(defenses)}
    columns |= {"defended": gaps[1], "attacked": gaps[2], "sign": [1 if metric == "m" else -1 for metric in metrics]}
    return columns | {"mos": [float(name[1:]) for _, name in where], "lower": [-2.0] * n}


def test_photographs_have_the_means_of_all_their_rows(study, finished) -> None:
    columns = crossed(np.random.default_rng(0))
    written = study(rows(**columns))
    means = photograph_means(finished.query(), written)
    joined = finished.query()(JOINED)
    assert sorted(means) == sorted(set(joined["dataset"])) == ["d[draw=0]", "d[draw=1]"]
    for dataset, averages in means.items():
        mine = joined["dataset"] == dataset
        assert averages["name"].tolist() == joined["name"][mine].tolist()
        for name in ("source", "attacked", "defended", "score"):
            assert averages[name] == pytest.approx(joined[name][mine].astype(float), rel=1e-12)

"""Tables, which are made from blocks, have the numbers that plain loops over long rows give."""

from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.iqa_rows import Finished, rows, written

from imharness_iqa.tables import BASELINE, report

METRICS, ATTACKS, STRENGTHS, DEFENSES = ("m1", "m2"), ("a1", "a2"), ("weak", "strong"), (BASELINE, "x/one", "x/two")
IMAGES = [f"i{i:02d}" for i in range(12)]
KINDS = ("fixed", "adaptive", "common")


def stored() -> list[dict]:
    """Return a row for each image under each attack on each defense; x/two lacks some, and some have no score."""
    rng = np.random.default_rng(0)
    source = {(m, i): float(np.float32(rng.uniform(2, 8))) for m in METRICS for i in IMAGES}
    defended = {(m, d, i): source[m, i] + rng.integers(-4, 5) / 8 for m in METRICS for d in DEFENSES for i in IMAGES}
    rows = []
    for metric, attack, strength, defense in (
        np.stack(np.meshgrid(METRICS, ATTACKS, STRENGTHS, DEFENSES, indexing="ij"), axis=-1).reshape(-1, 4).tolist()
    ):
        for adaptive in (False, True):
            if adaptive and (defense == BASELINE or (defense == "x/two" and metric == "m2")):
                continue
            for i, name in enumerate(IMAGES):
                score = defended[metric, defense, name] + float(np.float32(rng.normal(1, 1)))
                rows.append(
                    {
                        "metric": metric,
                        "method": attack,
                        "strength": strength,
                        "adaptive": adaptive,
                        "defense": defense,
                        "name": name,
                        "photograph": f"p{i // 2}",
                        "mos": float(i % 7),
                        "score": np.nan if rng.random() < 0.03 and defense != BASELINE else score,
                        "source": source[metric, name],
                        "defended": defended[metric, defense, name],
                        "ssim": float(np.float32(rng.random())),
                    }
                )
    return rows


@pytest.fixture(scope="module")
def long() -> list[dict]:
    """Return the rows as tables count them, with their measures.

    A row of a fixed attack counts as "common", too, if an adaptive one has the same condition; those without a
    defense count as fixed, adaptive and common.
    """
    stored_rows = stored()
    met = {(row["defense"], row["metric"], row["method"], row["strength"]) for row in stored_rows if row["adaptive"]}
    long_rows = []
    for row in stored_rows:
        condition = row["metric"], row["method"], row["strength"]
        kinds = ["adaptive" if row["adaptive"] else "fixed"]
        if not row["adaptive"] and row["defense"] == BASELINE:
            kinds += ["adaptive", "common"]
        elif not row["adaptive"] and (row["defense"], *condition) in met:
            kinds.append("common")
        d, dd = (10 * abs(row[of] - row["score"]) for of in ("source", "defended"))
        gain = 10 * (row["score"] - row["defended"])
        others = {
            (r["name"], r["defended"])
            for r in stored_rows
            if r["metric"] == row["metric"] and r["defense"] == row["defense"] and r["photograph"] != row["photograph"]
        }
        changed = [np.sign(row["defended"] - other) != np.sign(row["score"] - other) for _, other in others]
        share = 100 * np.mean(changed) if np.isfinite(row["score"]) else np.nan
        long_rows += [{**row, "kind": kind, "d": d, "dd": dd, "gain": gain, "reversed": share} for kind in kinds]
    return long_rows


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    stored_rows = stored()
    columns = {name: [row[name] for row in stored_rows] for name in stored_rows[0]}
    finished = Finished(tmp_path_factory.mktemp("store"))
    written(finished, rows(columns.pop("score"), columns.pop("source"), **columns))
    result = report(finished.query(), 0.05)
    return {table.id: {row.label: row.values for row in table.rows} for table in result.tables}


def mean(chosen: list[dict], measure: str) -> float:
    """Return the mean over images of each one's mean over all its rows."""
    by_image = defaultdict(list)
    for row in chosen:
        if np.isfinite(row[measure]):
            by_image[row["name"]].append(row[measure])
    return float(np.mean([np.mean(values) for values in by_image.values()]))


def srocc(chosen: list[dict]) -> float:
    """Return the mean of the rank correlations under each condition."""
    groups = defaultdict(list)
    for row in chosen:
        if np.isfinite(row["score"]):
            groups[row["metric"], row["method"], row["strength"]].append((row["score"], row["mos"]))
    return float(np.mean([spearmanr(*zip(*pairs, strict=True)).statistic for pairs in groups.values()]))


def of(long: list[dict], **facets: str) -> list[dict]:
    return [row for row in long if all(row[name] == value for name, value in facets.items())]


def worst(chosen: list[dict], measure: str = "reversed") -> float:
    """Return the mean over images of the mean over metrics of the most pairs reversed, or of another measure."""
    largest = defaultdict(list)
    for row in chosen:
        largest[row["name"], row["metric"]].append(row[measure])
    by_image = defaultdict(list)
    for (name, _), changes in largest.items():
        by_image[name].append(np.nanmax(changes))
    return float(np.mean([np.mean(values) for values in by_image.values()]))


def test_means_and_correlations_are_those_of_the_long_rows(long: list[dict], tables: dict) -> None:
    for defense in DEFENSES:
        for kind in KINDS:
            chosen, values = of(long, defense=defense, kind=kind), tables["defenses"][defense]
            assert values[f"{kind}_d"].value == pytest.approx(mean(chosen, "d"), abs=1e-9)
            assert values[f"{kind}_srocc"].value == pytest.approx(srocc(chosen), abs=1e-12)
            assert values[f"{kind}_srocc"].low < values[f"{kind}_srocc"].high
            assert tables["correlations"][defense][f"{kind}_spearman"].value == pytest.approx(srocc(chosen), abs=1e-12)
            if kind != "common":
                assert values[f"{kind}_ssim"].value == pytest.approx(mean(chosen, "ssim"), abs=1e-9)


def test_groups_are_those_of_the_long_rows(long: list[dict], tables: dict) -> None:
    for facet, names in (("strength", ("weak", "strong")), ("metric", METRICS)):
        for kind in ("fixed", "adaptive"):
            for defense, values in tables[f"by-{facet}-{kind}"].items():
                for name in names:
                    chosen = of(long, defense=defense, kind=kind, **{facet: name})
                    if chosen:
                        assert values[f"{name}_d"].value == pytest.approx(mean(chosen, "d"), abs=1e-9)
                        assert values[f"{name}_srocc"].value == pytest.approx(srocc(chosen), abs=1e-12)
                    else:
                        assert values[f"{name}_d"].missing == "no result"


def test_the_worst_of_each_image_is_that_of_the_long_rows(long: list[dict], tables: dict) -> None:
    tried = [row for row in long if row["kind"] != "common"]
    for defense in DEFENSES:
        defense_rows = of(tried, defense=defense)
        assert tables["ranking"][defense]["worst"].value == pytest.approx(worst(defense_rows), abs=1e-4)
        assert tables["cost"][defense]["dd_worst"].value == pytest.approx(worst(defense_rows, "dd"), abs=1e-9)
        assert tables["cost"][defense]["gain"].value == pytest.approx(worst(defense_rows, "gain"), abs=1e-9)
        assert tables["cost"][defense]["dd"].value == pytest.approx(mean(defense_rows, "dd"), abs=1e-9)
        columns = sorted(ATTACKS, key=lambda attack: -worst_over(of(tried, method=attack)))
        for attack in columns:
            cell = tables["breaks"][defense][attack].value
            assert cell == pytest.approx(worst(of(defense_rows, method=attack)), abs=1e-4)


def worst_over(chosen: list[dict]) -> float:
    """Return the mean over images of the mean over metrics and defenses of the most pairs reversed."""
    largest = defaultdict(list)
    for row in chosen:
        largest[row["name"], row["metric"], row["defense"]].append(row["reversed"])
    by_image = defaultdict(list)
    for (name, *_), changes in largest.items():
        by_image[name].append(np.nanmax(changes))
    return float(np.mean([np.mean(values) for values in by_image.values()]))

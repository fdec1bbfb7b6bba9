"""What the notes on published tables infer from the numbers themselves: which data sets are behind a mean."""

import numpy as np

from imharness.papers.published import find_table

RATED = ("koniq10k", "kadid10k", "agiqa-3k")
STRENGTHS = ("weak", "medium", "strong")


def _numbers(address: str) -> dict[str, dict[str, float]]:
    """Return row -> column -> value, NaN where the paper prints none."""
    table = find_table(address)
    keys = [column.key for column in table.columns]
    return {
        row.label: {
            key: np.nan if value.value is None else value.value for key, value in zip(keys, row.values, strict=True)
        }
        for row in table.rows
    }


def _gaps(first: dict[str, float], second: dict[str, float]) -> np.ndarray:
    """Return the distances of the rows that have a number in both, in units of the third decimal."""
    gaps = [abs(first[name] - second[name]) for name in first if name in second]
    return np.round(1000 * np.array(gaps)[np.isfinite(gaps)], 2)


def _clean(half: str) -> dict[str, float]:
    """Return the mean clean SROCC over `RATED`, by defense, of the half "fixed" or "adaptive" of table 19."""
    return {
        row: float(np.mean([numbers[f"{d}_srocc_{half}"] for d in RATED]))
        for row, numbers in _numbers("iqa/19").items()
    }


def test_clean_correlations_are_means_over_the_three_data_sets_with_opinions() -> None:
    """Rows are counted whose numbers in two tables differ by at most 0.001; those of "fixed" in table 2 do not fit."""
    common = {row: numbers["clean_spearman"] for row, numbers in _numbers("iqa/20").items()}
    adaptive = {row: numbers["adaptive_srocc_clean"] for row, numbers in _numbers("iqa/2").items()}
    fixed = {row: numbers["fixed_srocc_clean"] for row, numbers in _numbers("iqa/2").items()}
    same = _gaps(_clean("fixed"), common)
    assert (len(same), int((same <= 1).sum())) == (18, 13)
    same = _gaps(_clean("adaptive"), adaptive)
    assert (len(same), int((same <= 1).sum())) == (15, 10)
    assert same.max() < 17
    assert 105 < _gaps(_clean("fixed"), fixed).max() < 107


def test_adaptive_correlations_by_strength_and_by_metric_have_the_same_means() -> None:
    strength = {r: float(np.mean([v[f"{s}_srocc_adaptive"] for s in STRENGTHS])) for r, v in _numbers("iqa/11").items()}
    metric = {
        row: float(np.nanmean([value for key, value in numbers.items() if key.endswith("_srocc")]))
        for row, numbers in _numbers("iqa/12").items()
    }
    same = _gaps(strength, metric)
    assert len(same) == 15
    assert same.max() < 0.5


def test_d_by_strength_lies_near_the_mean_over_four_data_sets() -> None:
    sets = (*RATED, "nips2017")
    strength = {r: float(np.mean([v[f"{s}_d_fixed"] for s in STRENGTHS])) for r, v in _numbers("iqa/11").items()}
    data = {r: float(np.mean([v[f"{d}_d_fixed"] for d in sets])) for r, v in _numbers("iqa/19").items()}
    gaps = _gaps(strength, data)
    assert len(gaps) == 18
    assert gaps.max() < 1700

"""Recomputes what a ranking states from the files that readers download, with loops, numpy and scipy alone.

These are not recomputed: scores (``.f32`` files with their index), the contributions of units to gates, moves and
breaks (in ``results.json``), and the levels of the simultaneous intervals, which come from 10,000 resamples.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from imharness.tracks import TrackReport

from .verdicts import of_report as contradictions_in

FEWEST = 5
Facts = Mapping[str, Any]


@dataclass
class Mean:
    """A mean of what each unit adds, its interval, and the number of units that would show it to differ from 0."""

    value: float
    low: float
    high: float
    units: int
    needed: int | None


def of_parts(
    components: Sequence[float], alpha: float, value_range: float, values: Sequence[float] = (), *, skewed: bool
) -> Mean:
    """Return the mean of contributions with its interval.

    `values`: all values that an answer may have, for score intervals. `skewed`: for means of one entry, whose intervals
    allow for skewness; differences of two entries have plain t intervals.
    """
    x, k = np.array(components, dtype=float), len(components)
    mean = float(x.mean())
    if k < FEWEST:
        return Mean(mean, np.nan, np.nan, k, None)
    t, flat = float(scipy.stats.t.ppf(1 - alpha / 2, k - 1)), np.ptp(x) <= 1e-8 * np.abs(x).max(initial=0)
    error = 0.0 if flat else float(x.std(ddof=1) / np.sqrt(k))
    half = (1 - (alpha / 2) ** (1 / k)) * (value_range + abs(mean)) if flat else t * error
    low, high = mean - half, mean + half
    if len(values):
        low, high = score(x, values, float(scipy.stats.norm.ppf(1 - alpha / 2)))
        return Mean(mean, low, high, k, score_needed(x, values, alpha))
    elif skewed and not flat:
        ends = [end for bound in (t, -t) for end in [hall(x, bound)]]
        low, high = min(low, ends[0]), max(high, ends[1])
    skew = float(scipy.stats.skew(x)) * np.sign(mean) if skewed and not flat else 0.0
    return Mean(mean, low, high, k, needed(abs(mean), error * np.sqrt(k), alpha, value_range, skew))


def hall(x: np.ndarray, bound: float, *, sure: bool = False) -> float:
    """Return the mean at which Hall's transformed t is `bound`, by bisection of his cubic.

    `sure`: only the skewness beyond its standard error counts, as in `alone`.
    """
    k, skew = len(x), scipy.stats.skew(x)
    if sure:
        skew = np.sign(skew) * max(0.0, abs(skew) - np.sqrt(6 * (k - 2) / ((k + 1) * (k + 3))))

    def transformed(end: float) -> float:
        w = (x.mean() - end) / x.std(ddof=1)
        return np.sqrt(k) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * k)) - bound

    far = 1e3 * x.std()
    return float(scipy.optimize.brentq(transformed, x.mean() - far, x.mean() + far, xtol=1e-14))


def alone(components: Sequence[float], value_range: float) -> bool:
    """Return whether a mean is shown to be above 0 by itself: by t, and by Hall's t with `sure`."""
    mean = of_parts(components, 0.05, value_range, skewed=False)
    x = np.array(components, dtype=float)
    if not mean.low > 0 or np.ptp(x) <= 1e-8 * np.abs(x).max(initial=0):
        return bool(mean.low > 0)
    return hall(x, float(scipy.stats.t.ppf(0.975, len(x) - 1)), sure=True) > 0


def signed_rank(x: np.ndarray, near: float) -> float:
    """Return the exact p of the signed ranks of x being as positive as they are, from the counts of all sign patterns.

    `near`: smaller differences, from each other and from 0, may be rounding and count as none.
    """
    nonzero = sorted(x[np.abs(x) > near], key=abs)
    if not nonzero:
        return float("nan")
    steps = [0, *(abs(b) - abs(a) > near for a, b in pairwise(nonzero))]
    doubled = np.rint(2 * scipy.stats.rankdata(np.cumsum(steps))).astype(int)
    ways = {0: 1}
    for rank in doubled.tolist():
        more: dict[int, int] = {}
        for total, count in ways.items():
            for end in (total, total + rank):
                more[end] = more.get(end, 0) + count
        ways = more
    reached = int(doubled[np.array(nonzero) > 0].sum())
    return sum(count for total, count in ways.items() if total >= reached) / 2 ** len(nonzero)


def score(x: np.ndarray, values: Sequence[float], t: float) -> tuple[float, float]:
    """Return the means at which the score statistic is t; the likeliest shares are found numerically."""
    support = np.unique(values)

    def statistic(end: float) -> float:
        return abs(x.mean() - end) * np.sqrt(len(x)) - t * spread_around(x, support, end)

    ends = [
        float(scipy.optimize.brentq(statistic, x.mean() + (edge - x.mean()) * 1e-9, edge + (x.mean() - edge) * 1e-12))
        if edge != x.mean()
        else float(edge)
        for edge in (support[0], support[-1])
    ]
    return ends[0], ends[1]


def score_needed(x: np.ndarray, values: Sequence[float], alpha: float) -> int | None:
    """Return the number of units for a power of 0.8, by the normal distribution; None above 1000.

    The bound uses the spread around 0, and the power that of the sample.
    """
    around, counts = spread_around(x, np.unique(values), 0.0), np.arange(FEWEST, 1001)
    reached = scipy.stats.norm.isf(alpha / 2) * around + scipy.stats.norm.isf(0.2) * x.std()
    enough = abs(x.mean()) * np.sqrt(counts) >= reached
    return int(counts[enough][0]) if enough.any() and x.mean() else None


def spread_around(x: np.ndarray, support: np.ndarray, end: float) -> float:
    """Return the spread around `end` of the likeliest shares of values whose mean is `end`."""
    counts = np.array([(np.abs(x - v) < 1e-6).sum() for v in support])
    off = support - end
    a, b, seen = -len(x) / off.max(), -len(x) / off.min(), counts > 0

    def slope(m: float) -> float:
        return float((counts[seen] * off[seen] / (len(x) + m * off[seen])).sum())

    edge = 1e-11 * (b - a)
    m = a if slope(a + edge) <= 0 else b
    if slope(a + edge) > 0 > slope(b - edge):
        m = scipy.optimize.brentq(slope, a + edge, b - edge)
    shares = np.zeros(len(support))
    shares[seen] = counts[seen] / (len(x) + m * off[seen])
    shares[-1 if m == a else 0] += max(0.0, 1 - shares.sum())
    return float(np.sqrt((shares * off**2).sum()))


def range_of(every: Sequence[Sequence[float]]) -> float:
    """Return the largest absolute number of any unit and entry: a unit that was not measured may have it."""
    return max((abs(x) for values in every for x in values), default=0.0)


def needed(size: float, spread: float, alpha: float, value_range: float, skew: float = 0.0) -> int | None:
    """Return the number of units for a power of 0.8; None above 1000.

    `skew`: of the side on which the mean lies; the larger one of Student's t and Hall's has to be reached.
    """
    counts = np.arange(FEWEST, 1001)
    if not size > 0:
        return None
    if not spread > 0:
        enough = (1 - (alpha / 2) ** (1 / counts)) * (value_range + size) < size
        return int(counts[enough][0]) if enough.any() else None
    for some in np.split(counts, [16, 64, 256]):
        least = scipy.stats.t.isf(alpha / 2, some - 1)
        if skew:
            cubic = 1 + skew * (least / np.sqrt(some) - skew / (6 * some))
            least = np.maximum(least, 3 * (np.cbrt(cubic) - 1) / skew * np.sqrt(some))
        power = scipy.stats.nct.sf(least, some - 1, size / spread * np.sqrt(some))
        if (power >= 0.8).any():
            return int(some[power >= 0.8][0])
    return None


class Scores:
    """The scores of a comparison, unit by unit: the worst of a group of conditions, and the mean over groups."""

    def __init__(self, index: Facts, numbers: np.ndarray) -> None:
        self.index, self.sign = index, 1 if index["better"] == "higher" else -1
        sizes = [len(index["unit_sets"][condition["units"]]) for condition in index["conditions"]]
        starts = np.cumsum([0, *sizes]).tolist()
        self.cluster: dict[str, str] = {}
        self.family: dict[str, str] = {}
        worst: list[dict[tuple, float]] = [{} for _ in index["entries"]]
        share = {4: 1e-6, 8: 1e-14}[numbers.dtype.itemsize]
        self.near = {
            e: share * max(abs(row[np.isfinite(row)]), default=0.0)
            for e, row in zip(index["entries"], numbers, strict=True)
        }
        for condition, (start, _) in zip(index["conditions"], pairwise(starts), strict=True):
            facets = condition["facets"]
            group = tuple(sorted((k, v) for k, v in facets.items() if k not in index["over"]))
            names = index["unit_sets"][condition["units"]]
            sources = index["clusters"][condition["units"]] if index["clusters"] else names
            for i, (name, source) in enumerate(zip(names, sources, strict=True)):
                self.cluster[name] = source
                self.family[name] = facets.get(index["balanced"], "")
                for e in range(len(index["entries"])):
                    gain = self.sign * float(numbers[e, start + i])
                    if np.isfinite(gain):
                        worst[e][name, group] = min(gain, worst[e].get((name, group), np.inf))
        self.worst = dict(zip(index["entries"], worst, strict=True))
        families = list(self.family.values())
        count = {family: families.count(family) for family in set(families)}
        self.weight = {name: 1 / count[family] for name, family in self.family.items()}

    def means(self, unit_gains: Mapping[tuple, float]) -> dict[str, float]:
        """Return the mean of each unit over its groups."""
        gains_by_entry: dict[str, list[float]] = {}
        for (name, _), gain in unit_gains.items():
            gains_by_entry.setdefault(name, []).append(gain)
        return {name: float(np.mean(gains)) for name, gains in gains_by_entry.items()}

    def parts(self, units: Mapping[str, float]) -> list[float]:
        """Return what each cluster adds to the weighted mean."""
        total = sum(self.weight[name] for name in units)
        mean = sum(self.weight[name] * x for name, x in units.items()) / total
        off: dict[str, float] = {}
        for name, x in units.items():
            off[self.cluster[name]] = off.get(self.cluster[name], 0.0) + self.weight[name] * (x - mean)
        return [mean + len(off) * value / total for value in off.values()]

    def mean(self, entry: str) -> float:
        return self.sign * float(np.mean(self.parts(self.means(self.worst[entry]))))

    def against(self, ranking: Facts, entry: str, numbers: np.ndarray, *, aware: bool) -> dict[str, float]:
        """Return the mean score of each unit under one kind of attacker, over the attacks that both kinds ran."""
        seen: dict[tuple[str, int], dict[bool, list[float]]] = {}
        row, start = numbers[self.index["entries"].index(entry)], 0
        kinds = {
            condition["facets"][ranking["attacker"]] != ranking["unaware"] for condition in self.index["conditions"]
        }
        for condition, attack in zip(self.index["conditions"], ranking["alike"], strict=True):
            names = self.index["unit_sets"][condition["units"]]
            kind = condition["facets"][ranking["attacker"]] != ranking["unaware"]
            for name, x in zip(names, row[start : start + len(names)].tolist(), strict=True):
                if np.isfinite(x):
                    seen.setdefault((name, attack), {}).setdefault(kind, []).append(x)
            start += len(names)
        means: dict[str, list[float]] = {}
        for (name, _), gains in seen.items():
            if gains.keys() == kinds:
                means.setdefault(name, []).append(float(np.mean(gains[aware])))
        return {name: float(np.mean(values)) for name, values in means.items()}

    def gaps(self, entry: str, other: str) -> dict[str, float]:
        """Return the advantage of an entry over another one on each unit that both have."""
        both = self.worst[entry].keys() & self.worst[other].keys()
        return self.means({key: self.worst[entry][key] - self.worst[other][key] for key in both})

    def ahead(self, entry: str, other: str, alpha: float | None = None) -> Mean:
        level, gaps = self.index["pairwise_alpha"] if alpha is None else alpha, self.gaps(entry, other)
        if not gaps:
            return Mean(np.nan, np.nan, np.nan, 0, None)
        mean = of_parts(self.parts(gaps), level, self.index["value_range"], skewed=False)
        limit = np.inf if self.index["limit"] is None else self.index["limit"]
        return replace(mean, low=max(mean.low, -limit), high=min(mean.high, limit))

    def alone(self, entry: str, other: str) -> bool:
        return alone(self.parts(self.gaps(entry, other)), self.index["value_range"])

    def cluster_means(self, units: Mapping[str, float]) -> np.ndarray:
        gains: dict[str, list[float]] = {}
        for name in sorted(units):
            gains.setdefault(self.cluster[name], []).append(units[name])
        return np.array([np.mean(values) for values in gains.values()])


def same(facts: Facts, wanted: Mean) -> None:
    """Assert that a number of a leaderboard is the recomputed one."""
    for name in ("value", "low", "high"):
        value, other = facts[name], getattr(wanted, name)
        assert (value is None) == bool(np.isnan(other)), (name, facts, wanted)
        assert value is None or np.isclose(value, other, rtol=1e-5, atol=1e-7), (name, facts, wanted)
    assert facts["units"] == wanted.units
    assert facts["needed"] == wanted.needed


def of_report(report: TrackReport) -> set[str]:
    """Check every ranking of a report by `check`, from its JSON, and that no ranking contradicts itself."""
    assert contradictions_in(report) == []
    stored = [comparison.stored() for comparison in report.comparisons]
    comparisons = [(json.loads(index.model_dump_json()), numbers) for index, numbers in stored]
    tables = {table.id: table.model_dump() for table in report.tables}
    kinds: set[str] = set()
    for ranking in report.rankings:
        kinds |= check(json.loads(ranking.model_dump_json()), tables[ranking.table], comparisons)
    return kinds


def read(file: Path) -> np.ndarray:
    """Return the scores in a file, whose name ends in the bits of each score."""
    return np.fromfile(file, f"<f{int(file.suffix[2:]) // 8}")


def of_site(data: Path, track: str) -> set[str]:
    """Check the ranking of a track from the files of a site; see `check`."""
    leaderboard = next(
        candidate
        for candidate in json.loads((data / "results.json").read_text())["leaderboards"]
        if candidate["track"] == track
    )
    ranking = leaderboard["rankings"][0]
    table = next(candidate for candidate in leaderboard["tables"] if candidate["id"] == ranking["table"])
    comparisons = []
    for file in data.rglob("*.vectors.json"):
        index = json.loads(file.read_text())
        if index["id"] in ranking["secondary_measures"]:
            sets = index["unit_sets"]
            index["unit_sets"] = [[index["units"][u] for u in members] for members in sets]
            index["clusters"] = (
                [[str(index["clusters"][u]) for u in members] for members in sets] if index["clusters"] else []
            )
            comparisons.append((index, np.stack([read(file.parent / name) for name in index["files"]])))
    return check(ranking, table, comparisons)


def check(ranking: Facts, table: Facts, comparisons: Sequence[tuple[Facts, np.ndarray]]) -> set[str]:
    """Assert every number, rank interval, tier and winner of a ranking; return the kinds of sentences that it has."""
    scores = {index["id"]: Scores(index, numbers) for index, numbers in comparisons}
    judges = [scores[id] for id in ranking["secondary_measures"]]
    first, places = judges[0], ranking["places"]
    complete = [e for e in first.index["entries"] if places[e]["complete"]]
    able = [e for e in complete if eligible(places[e])]
    rows = {row["label"]: row["values"] for row in table["rows"]}
    ahead = {(a, b): first.ahead(a, b) for a in complete for b in complete if a != b}
    for e in complete:
        assert np.isclose(rows[e]["worst"]["value"], first.mean(e), rtol=1e-5, atol=1e-6)
        rank, behind = rows[e]["rank"], rows[e]["behind"]["value"]
        others = [o for o in able if o != e]
        assert (rank["value"] is None) == (e not in able)
        lead = max((ahead[o, e].value for o in others), default=0.0)
        assert e not in able or (behind is None and lead <= 0) or np.isclose(behind, lead, rtol=1e-5, atol=1e-6)
        assert e not in able or rank["value"] == 1 + sum(ahead[o, e].value > 0 for o in others)
        if rank["low"] is not None:
            low = 1 + sum(ahead[o, e].low > 0 for o in others)
            high = 1 + len(others) - sum(ahead[e, o].low > 0 for o in others)
            if ranking["winner"]:
                low, high = (1, 1) if e == ranking["winner"] else (max(low, 2), high)
            assert (rank["low"], rank["high"]) == (low, high)
        moved = places[e]["moved"]
        if moved:
            assert np.isclose(moved["after"] - moved["before"], moved["change"]["value"], atol=1e-6)
            own_numbers = next(
                values for index, values in comparisons if index["id"] == ranking["secondary_measures"][0]
            )
            facets = {
                condition["facets"][ranking["attacker"]] == ranking["unaware"]
                for condition in first.index["conditions"]
            }
            for name, aware in (("before", False), ("after", True)) if len(facets) == 2 else ():
                units = first.against(ranking, e, own_numbers, aware=aware)
                assert np.isclose(moved[name], np.mean(first.parts(units)), rtol=1e-5, atol=1e-6)
    best, winner, near = _standing(ranking, judges, complete, able)
    assert (set(ranking["may_be_best"]), ranking["winner"], set(ranking["not_behind"])) == (best, winner, near)
    _places(places)
    _against(ranking, first, complete, rows)
    sentences = _sentences(ranking, judges, ahead, complete)
    assert sorted(
        (finding["tier"], finding["kind"], finding["entry"], *sorted(finding["against"]))
        for finding in ranking["findings"]
    ) == (sorted(sentences))
    return {finding["kind"] for finding in ranking["findings"]}


def eligible(position: Facts) -> bool:
    return (
        position["complete"]
        and not position["control"]
        and not position["flags"]
        and position["gate"] in ("passes", "undecided")
    )


def _standing(
    ranking: Facts, judges: Sequence[Scores], complete: Sequence[str], able: Sequence[str]
) -> tuple[set[str], str, set[str]]:
    """Return who may be best, who wins, and whom the first is not shown to be better than."""
    if not able:
        return set(), "", set()
    main, places, baseline = judges[0], ranking["places"], ranking["baseline"]
    lost = {e: sum(main.ahead(o, e).value > 0 for o in able if o != e) for e in able}
    first = min(able, key=lambda e: (lost[e], main.index["entries"].index(e)))
    assert ranking["first"] == first
    stands = [c for c in complete if places[c]["control"] and c not in ranking["references"]]
    matched = ranking["matched"]
    rivals = [
        c for c in stands if c not in matched or (matched[c] == first and places[c]["gate"] in ("passes", "undecided"))
    ]
    others = [e for e in able if e != first]
    near = {o for o in (*others, *rivals) if not main.alone(first, o) and not main.ahead(first, o).low > 0}
    disagree = any(
        judge.ahead(o, first).low > 0
        for judge in judges[1:]
        for o in {*others, *({baseline} & {*complete})}
        if {o, first} <= judge.worst.keys()
    )
    comparable = baseline in complete or baseline not in places
    if (others or rivals) and comparable and not near and not disagree:
        return {first}, first, near
    alpha = 2 * ranking["best_alpha"]
    worse = {e for e in able if baseline in complete and e != baseline and _worse(ranking, main, e)}
    best = {
        e
        for e in able
        if e not in worse
        and not any(
            main.ahead(o, e).low > 0 or (e not in near and main.ahead(o, e, alpha).low > 0) for o in able if o != e
        )
    }
    return best, "", near


def _worse(ranking: Facts, main: Scores, entry: str) -> bool:
    alphas = (2 * ranking["against_alphas"][1], None)
    return any(main.ahead(entry, ranking["baseline"], alpha).high < 0 for alpha in alphas)


def _against(ranking: Facts, main: Scores, complete: Sequence[str], rows: Facts) -> None:
    """Check how entries compare with the baseline: value, ends, verdict, and Wilcoxon's p with Holm's correction."""
    plain, places = ranking["baseline"], ranking["places"]
    candidates = [e for e in complete if not places[e]["control"] and e != plain] if plain in complete else []
    assert [e for e in places if places[e]["against"]] == [e for e in places if e in candidates]
    near = {e: max(main.near[e], main.near[plain]) for e in candidates}
    p = {e: signed_rank(main.cluster_means(main.gaps(e, plain)), near[e]) for e in candidates}
    clusters = {e: len(main.cluster_means(main.gaps(e, plain))) for e in candidates}
    tested = sorted((p[e], e) for e in candidates if not np.isnan(p[e]) and clusters[e] >= FEWEST)
    holm, last = {}, 0.0
    for i, (one, e) in enumerate(tested):
        last = max(last, min(1.0, one * (len(tested) - i)))
        holm[e] = last
    for e in candidates:
        comparison, (lower, upper) = places[e]["against"], ranking["against_alphas"]
        low, high = main.ahead(e, plain, 2 * lower), main.ahead(e, plain, 2 * upper)
        assert np.isclose(comparison["value"], low.value, rtol=1e-5, atol=1e-7)
        assert (comparison["low"] is None) == bool(np.isnan(low.low))
        if comparison["low"] is not None:
            better, worse = (comparison["verdict"] == word for word in ("better", "worse"))
            among_all = main.ahead(e, plain)
            assert np.isclose(comparison["low"], max(low.low, 0.0) if better else low.low, rtol=1e-5, atol=1e-6)
            assert np.isclose(comparison["high"], min(high.high, 0.0) if worse else high.high, rtol=1e-5, atol=1e-6)
            assert better or not (low.low > 0 or among_all.low > 0)
            single = main.ahead(e, plain, 0.08).low > 0 or among_all.low > 0
            assert not better or single or e == ranking["winner"], "a later step is never nearer than one alone"
            assert worse == bool((high.high < 0 or among_all.high < 0) and not better)
        assert (comparison["p"] is None) == (e not in holm)
        if e in holm:
            assert np.isclose(comparison["p"], p[e], rtol=1e-9)
            assert np.isclose(comparison["p_holm"], holm[e], rtol=1e-9)
            assert np.isclose(rows[e]["p"]["value"], holm[e], rtol=1e-9)
        assert np.isclose(rows[e]["gain"]["value"], main.sign * comparison["value"], rtol=1e-9)


def _places(places: Facts) -> None:
    for position in places.values():
        for measure in position["gate_numbers"]:
            if measure["contributions"]:
                alike = [
                    k["contributions"]
                    for p in places.values()
                    for k in p["gate_numbers"]
                    if k["label"] == measure["label"]
                ]
                value_range, values = range_of(alike), measure["values"]
                mean = of_parts(measure["contributions"], measure["alpha"], value_range, values, skewed=True)
                alone = of_parts(
                    measure["contributions"], measure["alpha"] * len(alike), value_range, values, skewed=True
                )
                unsure = "doubtful" if alone.high < 0 else "undecided"
                state = "passes" if mean.low > 0 else "fails" if mean.high < 0 else unsure
                if measure["low"] is None:
                    state, mean.low, mean.high = "undecided", np.nan, np.nan
                same(measure, mean)
                assert measure["state"] == state


def _sentences(
    ranking: Facts, judges: Sequence[Scores], ahead: Mapping[tuple[str, str], Mean], complete: Sequence[str]
) -> list[tuple]:
    """Return tier, kind, entry and others of each sentence that follows from the numbers, and check the numbers of
    each."""
    places, plain, matched = ranking["places"], ranking["baseline"], ranking["matched"]
    controls = [e for e in complete if places[e]["control"] and e not in {*ranking["references"], plain}]
    candidates = [e for e in complete if not places[e]["control"]]
    sentences: list[tuple] = []
    for e in candidates:
        against = places[e]["against"]
        verdict = against["verdict"] if against else ""
        if verdict == "better" and not places[e]["flags"]:
            sentences.append(("shown", "better", e, plain))
        sentences += [("ruled out", "worse", e, plain)] if verdict == "worse" else []
        sentences += [("open", "undecided", e, plain)] if verdict == "undecided" else []
        stands = [
            c
            for c in controls
            if c not in matched or (matched[c] == e and places[c]["gate"] in ("passes", "undecided"))
        ]
        worse = sorted(c for c in stands if ahead[c, e].low > 0)
        sentences += [("ruled out", "worse", e, *worse)] if worse else []
        moved, broken = places[e]["moved"], places[e]["broken"]
        if moved and len(moved["contributions"]) >= FEWEST:
            sentences += (
                [("shown", "moves", e)]
                if (moved["change"]["low"] or 0) * judges[0].sign < 0 and (moved["change"]["high"] * judges[0].sign < 0)
                else []
            )
        sentences += [("ruled out", "broken", e)] if broken and broken["attack"] else []
    for e, position in places.items():
        if position["control"]:
            continue
        for measure in position["gate_numbers"]:
            sentences += [("ruled out", "costs", e)] if measure["state"] == "fails" else []
            sentences += [("open", "gate", e)] if measure["state"] in ("doubtful", "undecided") else []
        sentences += [("open", "incomplete", e)] if not position["complete"] or position["lacks"] else []
        sentences += [("open", "flagged", e)] if position["flags"] else []
    for finding in ranking["findings"]:
        _numbers(finding, judges[0], ranking, places)
    best = ranking["may_be_best"]
    sentences += [("open", "may be best", best[0], *sorted(best[1:]))] if len(best) > 1 else []
    return sentences


def _numbers(finding: Facts, main: Scores, ranking: Facts, places: Facts) -> None:
    position, facts = places[finding["entry"]], finding["facts"]
    for other, number in finding["against"].items():
        if other == ranking["baseline"] and finding["kind"] != "may be best":
            assert number == {name: position["against"][name] for name in number}
        else:
            same(number, main.ahead(finding["entry"], other))
    if finding["kind"] == "moves":
        components, alpha = position["moved"]["contributions"], position["moved"]["alpha"]
        every = [
            other_position["moved"]["contributions"] for other_position in places.values() if other_position["moved"]
        ]
        same(facts["change"], of_parts(components, alpha, range_of(every), skewed=True))
    if finding["kind"] == "broken":
        for name, components in zip(("seems", "rest"), position["broken"]["contributions"], strict=True):
            every = [
                x
                for other_position in places.values()
                if other_position["broken"]
                for x in other_position["broken"]["contributions"]
            ]
            same(facts[name], of_parts(components, ranking["broken_alpha"], range_of(every), skewed=True))
        assert facts["seems"]["low"] > 0 > facts["rest"]["high"]
    for number in (*finding["against"].values(), *facts.values()):
        if finding["kind"] == "undecided" and number["low"] is None:
            continue  # too few units: the sentence has no number
        text = f"{abs(number['value']):.{finding['decimals']}f}"
        named = len(finding["against"]) < 2 or finding["kind"] not in ("better", "worse", "may be best")
        assert not named or finding["kind"] in ("may be best", "broken") or text in finding["text"]

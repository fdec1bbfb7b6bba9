"""Recomputes what a ranking states from the files that readers download, with loops, numpy and scipy alone.

Taken as given are scores (``.f32`` files with their index), what each unit adds to gates, moves and breaks (in
``results.json``), and the frozen tail of the simultaneous intervals, which 10,000 resamples made.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from imharness.tracks import TrackReport

FEWEST = 5
Facts = Mapping[str, Any]


@dataclass
class Mean:
    """A mean of what each unit adds, with its interval, and how many units it takes to tell it from 0."""

    value: float
    low: float
    high: float
    units: int
    needed: int | None


def of_parts(parts: Sequence[float], tail: float, reach: float, values: Sequence[float] = (), *, skewed: bool) -> Mean:
    """`skewed`: means of one entry by itself; differences of two have plain t intervals."""
    x, k = np.array(parts, dtype=float), len(parts)
    mean = float(x.mean())
    if k < FEWEST:
        return Mean(mean, np.nan, np.nan, k, None)
    t, flat = float(scipy.stats.t.ppf(1 - tail / 2, k - 1)), np.ptp(x) <= 1e-8 * np.abs(x).max(initial=0)
    error = 0.0 if flat else float(x.std(ddof=1) / np.sqrt(k))
    half = (1 - (tail / 2) ** (1 / k)) * (reach + abs(mean)) if flat else t * error
    low, high = mean - half, mean + half
    if len(values):
        low, high = score(x, values, float(scipy.stats.norm.ppf(1 - tail / 2)))
        return Mean(mean, low, high, k, score_needed(x, values, tail))
    elif skewed and not flat:
        ends = [end for bound in (t, -t) for end in [hall(x, bound)]]
        low, high = min(low, ends[0]), max(high, ends[1])
    skew = float(scipy.stats.skew(x)) * np.sign(mean) if skewed and not flat else 0.0
    return Mean(mean, low, high, k, needed(abs(mean), error * np.sqrt(k), tail, reach, skew))


def hall(x: np.ndarray, bound: float) -> float:
    """The mean at which Hall's transformed t is `bound`, by bisection of his cubic."""
    k, skew = len(x), scipy.stats.skew(x)

    def transformed(end: float) -> float:
        w = (x.mean() - end) / x.std(ddof=1)
        return np.sqrt(k) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * k)) - bound

    reach = 1e3 * x.std()
    return float(scipy.optimize.brentq(transformed, x.mean() - reach, x.mean() + reach, xtol=1e-14))


def score(x: np.ndarray, values: Sequence[float], t: float) -> tuple[float, float]:
    """The means at which the score statistic is t; the likeliest shares by minimisation."""
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


def score_needed(x: np.ndarray, values: Sequence[float], tail: float) -> int | None:
    """By the normal distribution: the spread around 0 at the bound, and the sample's for the power."""
    around, counts = spread_around(x, np.unique(values), 0.0), np.arange(FEWEST, 1001)
    reached = scipy.stats.norm.isf(tail / 2) * around + scipy.stats.norm.isf(0.2) * x.std()
    enough = abs(x.mean()) * np.sqrt(counts) >= reached
    return int(counts[enough][0]) if enough.any() and x.mean() else None


def spread_around(x: np.ndarray, support: np.ndarray, end: float) -> float:
    """The spread of the likeliest shares of values whose mean is `end`."""
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


def reach_of(every: Sequence[Sequence[float]]) -> float:
    """The largest number of any unit and entry: an unmeasured unit may have it."""
    return max((abs(x) for own in every for x in own), default=0.0)


def needed(size: float, spread: float, tail: float, reach: float, skew: float = 0.0) -> int | None:
    """`skew`: of the side on which the mean lies; the larger one of Student's t and Hall's has to be reached."""
    counts = np.arange(FEWEST, 1001)
    if not size > 0:
        return None
    if not spread > 0:
        enough = (1 - (tail / 2) ** (1 / counts)) * (reach + size) < size
        return int(counts[enough][0]) if enough.any() else None
    for some in np.split(counts, [16, 64, 256]):
        least = scipy.stats.t.isf(tail / 2, some - 1)
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
        sizes = [len(index["unit_sets"][own["units"]]) for own in index["conditions"]]
        starts = np.cumsum([0, *sizes]).tolist()
        self.cluster: dict[str, str] = {}
        self.family: dict[str, str] = {}
        worst: list[dict[tuple, float]] = [{} for _ in index["entries"]]
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
        count = {own: families.count(own) for own in set(families)}
        self.weight = {name: 1 / count[own] for name, own in self.family.items()}

    def means(self, own: Mapping[tuple, float]) -> dict[str, float]:
        """The mean of each unit over its groups."""
        found: dict[str, list[float]] = {}
        for (name, _), gain in own.items():
            found.setdefault(name, []).append(gain)
        return {name: float(np.mean(gains)) for name, gains in found.items()}

    def parts(self, units: Mapping[str, float]) -> list[float]:
        """What each cluster adds to the weighted mean."""
        total = sum(self.weight[name] for name in units)
        mean = sum(self.weight[name] * x for name, x in units.items()) / total
        off: dict[str, float] = {}
        for name, x in units.items():
            off[self.cluster[name]] = off.get(self.cluster[name], 0.0) + self.weight[name] * (x - mean)
        return [mean + len(off) * own / total for own in off.values()]

    def mean(self, entry: str) -> float:
        return self.sign * float(np.mean(self.parts(self.means(self.worst[entry]))))

    def against(self, ranking: Facts, entry: str, numbers: np.ndarray, *, aware: bool) -> dict[str, float]:
        """The mean score of each unit under one kind of attacker, over the attacks that were run both ways."""
        seen: dict[tuple[str, int], dict[bool, list[float]]] = {}
        row, start = numbers[self.index["entries"].index(entry)], 0
        kinds = {own["facets"][ranking["attacker"]] != ranking["unaware"] for own in self.index["conditions"]}
        for condition, attack in zip(self.index["conditions"], ranking["alike"], strict=True):
            names = self.index["unit_sets"][condition["units"]]
            kind = condition["facets"][ranking["attacker"]] != ranking["unaware"]
            for name, x in zip(names, row[start : start + len(names)].tolist(), strict=True):
                if np.isfinite(x):
                    seen.setdefault((name, attack), {}).setdefault(kind, []).append(x)
            start += len(names)
        found: dict[str, list[float]] = {}
        for (name, _), own in seen.items():
            if own.keys() == kinds:
                found.setdefault(name, []).append(float(np.mean(own[aware])))
        return {name: float(np.mean(own)) for name, own in found.items()}

    def ahead(self, entry: str, other: str, tail: float | None = None) -> Mean:
        both = self.worst[entry].keys() & self.worst[other].keys()
        gaps = self.means({key: self.worst[entry][key] - self.worst[other][key] for key in both})
        level = self.index["tail"] if tail is None else tail
        return of_parts(self.parts(gaps), level, self.index["reach"], skewed=False)


def same(found: Facts, wanted: Mean) -> None:
    """Assert that a number of a board is the recomputed one."""
    for name in ("value", "low", "high"):
        own, other = found[name], getattr(wanted, name)
        assert (own is None) == bool(np.isnan(other)), (name, found, wanted)
        assert own is None or np.isclose(own, other, rtol=1e-5, atol=1e-7), (name, found, wanted)
    assert found["units"] == wanted.units
    assert found["needed"] == wanted.needed


def of_report(report: TrackReport) -> set[str]:
    """Check the ranking of a report, from its JSON; see `check`."""
    made = [own.stored() for own in report.comparisons]
    ranking, tables = json.loads(report.rankings[0].model_dump_json()), [own.model_dump() for own in report.tables]
    table = next(own for own in tables if own["id"] == ranking["table"])
    return check(ranking, table, [(json.loads(index.model_dump_json()), numbers) for index, numbers in made])


def read(file: Path) -> np.ndarray:
    """The scores in a file, whose name ends in the bits of each."""
    return np.fromfile(file, f"<f{int(file.suffix[2:]) // 8}")


def of_site(data: Path, track: str) -> set[str]:
    """Check the ranking of a track from the files of a site; see `check`."""
    board = next(own for own in json.loads((data / "results.json").read_text())["boards"] if own["track"] == track)
    ranking = board["rankings"][0]
    table = next(own for own in board["tables"] if own["id"] == ranking["table"])
    found = []
    for file in data.rglob("*.vectors.json"):
        index = json.loads(file.read_text())
        if index["id"] in ranking["yardsticks"]:
            sets = index["unit_sets"]
            index["unit_sets"] = [[index["units"][u] for u in own] for own in sets]
            index["clusters"] = [[str(index["clusters"][u]) for u in own] for own in sets] if index["clusters"] else []
            found.append((index, np.stack([read(file.parent / name) for name in index["files"]])))
    return check(ranking, table, found)


def check(ranking: Facts, table: Facts, comparisons: Sequence[tuple[Facts, np.ndarray]]) -> set[str]:
    """Assert every number, rank interval, tier and winner of a ranking; return the kinds of sentences that it has."""
    scores = {index["id"]: Scores(index, numbers) for index, numbers in comparisons}
    judges = [scores[id] for id in ranking["yardsticks"]]
    first, places = judges[0], ranking["places"]
    complete = [e for e in first.index["entries"] if places[e]["complete"]]
    rows = {row["label"]: row["values"] for row in table["rows"]}
    ahead = {(a, b): first.ahead(a, b) for a in complete for b in complete if a != b}
    for e in complete:
        others = [o for o in complete if o != e and not places[o]["control"]]
        assert np.isclose(rows[e]["worst"]["value"], first.mean(e), rtol=1e-5, atol=1e-6)
        rank, behind = rows[e]["rank"], rows[e]["behind"]["value"]
        lead = max((ahead[o, e].value for o in others), default=0.0)
        assert (behind is None and lead <= 0) or np.isclose(behind, lead, rtol=1e-5, atol=1e-6)
        assert places[e]["control"] or rank["value"] == 1 + sum(ahead[o, e].value > 0 for o in others)
        assert (rank["value"] is None) == bool(places[e]["control"])
        if rank["low"] is not None:
            assert rank["low"] == 1 + sum(ahead[o, e].low > 0 for o in others)
            assert rank["high"] == 1 + len(others) - sum(ahead[e, o].low > 0 for o in others)
        moved = places[e]["moved"]
        if moved:
            assert np.isclose(moved["after"] - moved["before"], moved["change"]["value"], atol=1e-6)
            own_numbers = next(own for index, own in comparisons if index["id"] == ranking["yardsticks"][0])
            facets = {own["facets"][ranking["attacker"]] == ranking["unaware"] for own in first.index["conditions"]}
            for name, aware in (("before", False), ("after", True)) if len(facets) == 2 else ():
                units = first.against(ranking, e, own_numbers, aware=aware)
                assert np.isclose(moved[name], np.mean(first.parts(units)), rtol=1e-5, atol=1e-6)
    wanted = _standing(ranking, judges, complete)
    assert (set(ranking["may_be_best"]), ranking["winner"]) == wanted[:2]
    _places(places)
    said = _sentences(ranking, judges, ahead, complete, wanted[2])
    assert sorted((own["tier"], own["kind"], own["entry"], *sorted(own["against"])) for own in ranking["findings"]) == (
        sorted(said)
    )
    return {own["kind"] for own in ranking["findings"]}


def _standing(ranking: Facts, judges: Sequence[Scores], complete: Sequence[str]) -> tuple[set[str], str, list[str]]:
    places = ranking["places"]
    able = [
        e
        for e in complete
        if not places[e]["control"] and not places[e]["flags"] and places[e]["gate"] in ("passes", "not told")
    ]
    controls = [e for e in complete if places[e]["control"] and e not in ranking["references"]]
    measured = [[e for e in able if e in own.worst] for own in judges]
    best = {
        e
        for e in able
        if any(
            not any(own.ahead(o, e).low > 0 for o in those if o != e) if e in those else True
            for own, those in zip(judges, measured, strict=True)
        )
    }
    behind = {e: sum(judges[0].ahead(o, e).value > 0 for o in able if o != e) for e in able}
    best |= {min(able, key=lambda e: (behind[e], judges[0].index["entries"].index(e)))} if able else set()

    def beats(e: str, other: str, tails: Sequence[float] | None) -> bool:
        own = [j for j in judges if e in j.worst and other in j.worst]
        level = [None if tails is None else tails[judges.index(j)] for j in own]
        return len(own) == len(judges) and all(j.ahead(e, other, t).low > 0 for j, t in zip(own, level, strict=True))

    assert np.allclose(ranking["control_tails"], [tail_of(own, len(able)) for own in judges])
    lone = ""
    if len(best) == 1:
        (only,) = best
        proven = all(beats(only, c, ranking["control_tails"]) for c in controls)
        lone = only if proven and all(beats(only, o, None) for o in able if o != only) else ""
    return best, lone, able


def tail_of(judge: Scores, candidates: int) -> float:
    """The level of a candidate against a control: corrected over candidates alone."""
    return max(judge.index["tail"], 0.05 / max(candidates, 1))


def _places(places: Facts) -> None:
    for own in places.values():
        for kept in own["kept"]:
            if kept["parts"]:
                alike = [k["parts"] for p in places.values() for k in p["kept"] if k["label"] == kept["label"]]
                reach, values = reach_of(alike), kept["values"]
                mean = of_parts(kept["parts"], kept["tail"], reach, values, skewed=True)
                alone = of_parts(kept["parts"], kept["tail"] * len(alike), reach, values, skewed=True)
                unsure = "doubtful" if alone.high < 0 else "not told"
                state = "passes" if mean.low > 0 else "fails" if mean.high < 0 else unsure
                if kept["low"] is None:
                    state, mean.low, mean.high = "not told", np.nan, np.nan
                same(kept, mean)
                assert kept["state"] == state


def _sentences(
    ranking: Facts,
    judges: Sequence[Scores],
    ahead: Mapping[tuple[str, str], Mean],
    complete: Sequence[str],
    able: Sequence[str],
) -> list[tuple]:
    """Return tier, kind, entry and others of each sentence that follows from the numbers, and check its own numbers."""
    places, given = ranking["places"], ranking["findings"]
    controls = [e for e in complete if places[e]["control"] and e not in ranking["references"]]
    own = [e for e in complete if not places[e]["control"]]
    said: list[tuple] = []
    for e in own:
        better = sorted(o for o in complete if o != e and ahead[e, o].low > 0)
        if better and not places[e]["flags"]:
            said.append(("shown", "better", e, *better))
        worse = sorted(c for c in controls if ahead[c, e].low > 0)
        said += [("ruled out", "worse", e, *worse)] if worse else []
        moved, broken = places[e]["moved"], places[e]["broken"]
        if moved and len(moved["parts"]) >= FEWEST:
            said += (
                [("shown", "moves", e)]
                if (moved["change"]["low"] or 0) * judges[0].sign < 0 and (moved["change"]["high"] * judges[0].sign < 0)
                else []
            )
        said += [("ruled out", "broken", e)] if broken and broken["attack"] else []
    for e, place in places.items():
        if place["control"]:
            continue
        for kept in place["kept"]:
            said += [("ruled out", "costs", e)] if kept["state"] == "fails" else []
            said += [("open", "gate", e)] if kept["state"] in ("doubtful", "not told") else []
        said += [("open", "incomplete", e)] if not place["complete"] else []
        said += [("open", "flagged", e)] if place["flags"] else []
    for finding in given:
        _numbers(finding, judges, ranking, places)
    best = ranking["may_be_best"]
    for judge in judges:
        named = [o for o in best if not any(behind(judge, o, rival) for rival in best)]
        others = [o for o in named[1:] if o in judge.worst and named[0] in judge.worst]
        if others:
            said.append(("open", "may be best", named[0], *sorted(others)))
        for e in own:
            for c in controls if e in able else {ranking["undefended"]} & set(controls):
                if e in judge.worst and c in judge.worst:
                    gap = judge.ahead(e, c, tail_of(judge, len(able)) if e in able else None)
                    worse = judge is judges[0] and ahead[c, e].low > 0
                    said += [("open", "not told", e, c)] if not (gap.low > 0 or worse) else []
    return said


def behind(judge: Scores, entry: str, rival: str) -> bool:
    """Whether a judge shows a rival to be better than an entry."""
    return rival != entry and {entry, rival} <= judge.worst.keys() and judge.ahead(rival, entry).low > 0


def _numbers(finding: Facts, judges: Sequence[Scores], ranking: Facts, places: Facts) -> None:
    judge = next((own for own in judges if own.index["measure"] == finding["measure"]), judges[0])
    for other, number in finding["against"].items():
        able = [
            label
            for label, p in places.items()
            if p["complete"] and not p["control"] and not p["flags"] and p["gate"] in ("passes", "not told")
        ]
        control = finding["kind"] == "not told" and finding["entry"] in able
        same(number, judge.ahead(finding["entry"], other, tail_of(judge, len(able)) if control else None))
    place, facts = places[finding["entry"]], finding["facts"]
    if finding["kind"] == "moves":
        parts, tail = place["moved"]["parts"], place["moved"]["tail"]
        every = [own["moved"]["parts"] for own in places.values() if own["moved"]]
        same(facts["change"], of_parts(parts, tail, reach_of(every), skewed=True))
    if finding["kind"] == "broken":
        for name, parts in zip(("seems", "rest"), place["broken"]["parts"], strict=True):
            every = [x for own in places.values() if own["broken"] for x in own["broken"]["parts"]]
            same(facts[name], of_parts(parts, ranking["broken_tail"], reach_of(every), skewed=True))
        assert facts["seems"]["low"] > 0 > facts["rest"]["high"]
    for number in (*finding["against"].values(), *facts.values()):
        shown = f"{abs(number['value']):.{finding['decimals']}f}"
        named = len(finding["against"]) < 2 or finding["kind"] not in ("better", "worse", "may be best")
        assert not named or finding["kind"] in ("may be best", "broken") or shown in finding["text"]

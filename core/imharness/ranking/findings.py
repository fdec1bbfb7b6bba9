"""Makes the findings of a ranking: sentences with their numbers, each of which is shown, ruled out, or open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np

from imharness.documents.findings import Finding, Kind, Measured, Tier
from imharness.documents.rankings import Against, Kept, Place
from imharness.documents.tables import ColumnSpec, Value, joined, several, too_few
from imharness.ranking.headline import BARS, distance, not_measured, specs_of, withheld
from imharness.ranking.rules import Contest
from imharness.ranking.standing import Standing
from imharness.statistics.differences import MOST, Intervals

_DOUBT = "; tested alone it fails, so it cannot win"
WHOLE = frozenset({"may be best", "broken", "moves"})
"""Kinds of findings whose text is a whole sentence; the texts of all others follow the label of the entry."""


def measured(intervals: Intervals, *index: int) -> Measured:
    """Return one of several means as data; `index` is its position."""
    low, high = float(intervals.low[index]), float(intervals.high[index])
    ends = {} if np.isnan(low) else {"low": low, "high": high}
    return Measured(
        value=float(intervals.value[index]),
        units=int(intervals.units[index]),
        needed=intervals.needed_for(*index),
        **ends,
    )


def findings_of(
    rules: Contest, standing: Standing, places: Mapping[str, Place], values: Mapping[str, Mapping[str, Value]]
) -> tuple[Finding, ...]:
    """Return every sentence that a ranking states: first what is shown, then what is ruled out, then what is open.

    `places`: label -> what the ranking states about the entry. `values`: label -> column -> value of the table.
    """
    return tuple(sorted(_Sentences(rules, standing, places, values).all(), key=_order))


def _order(finding: Finding) -> tuple[int, int, float, float]:
    """Return the sort key of a sentence: tier, kind, then two numbers.

    A sentence that is shown or ruled out comes before others if the end of its interval that is nearer to 0 is farther
    from 0. An open one comes before others if fewer units would settle it, and then if its value is larger.
    """
    tier, kind = get_args(Tier).index(finding.tier), get_args(Kind).index(finding.kind)
    numbers = list(finding.facts.values())[-1:] or list(finding.against.values())
    if finding.tier == "open":
        needed = min((number.needed for number in numbers if number.needed is not None), default=np.inf)
        return tier, kind, needed, -max((number.value for number in numbers), default=0.0)
    ends = [min(abs(n.low), abs(n.high)) for n in numbers if n.low is not None and n.high is not None]
    return tier, kind, -max(ends, default=0.0), 0.0


class _Sentences:
    """Yields the findings of a ranking, kind by kind. An entry is its position i in ``rules.scores.entries``."""

    def __init__(
        self,
        rules: Contest,
        standing: Standing,
        places: Mapping[str, Place],
        values: Mapping[str, Mapping[str, Value]],
    ) -> None:
        self.rules, self.standing, self.places, self.values = rules, standing, places, values
        self.entries, self.pairs = rules.scores.entries, standing.pairs[0]
        self.specs = specs_of(rules)
        self.entrants = [i for i, label in enumerate(self.entries) if not places[label].control]
        self.complete = [i for i in self.entrants if places[self.entries[i]].complete]

    def all(self) -> Iterator[Finding]:
        """Yield every finding."""
        yield from self.best()
        for i in self.complete:
            for section in (self.better, self.moves, self.worse, self.broken, self.undecided):
                yield from section(i)
        for i in self.entrants:
            yield from self.kept(i, "costs")
            yield from self.kept(i, "gate")
            yield from self.withheld(i)

    def finding(
        self, tier: Tier, kind: Kind, i: int, text: str, spec: ColumnSpec | None = None, **facts: object
    ) -> Finding:
        """Return a finding about entry i. `spec`: its measure, by default that of the ranking; `facts`: more fields."""
        measure = spec or self.specs[0]
        return Finding.model_validate(
            {
                "tier": tier,
                "kind": kind,
                "entry": self.entries[i],
                "measure": measure.label,
                "decimals": measure.decimals,
                "unit": measure.cluster_unit or measure.unit or "unit",
                "text": text if kind in WHOLE else f"{self.entries[i]} {text}.",
                **facts,
            }
        )

    def better(self, i: int) -> Iterator[Finding]:
        """Say that an entry is shown to be better than no defense; all of these hold at once."""
        position = self.places[self.entries[i]]
        if position.against is not None and position.against.verdict == "better" and not position.flags:
            text = f"is better than {self.rules.compared_with}: {self.numbers(i)}{_wilcoxon(position.against)}"
            yield self.finding(
                "shown", "better", i, text, against={self.rules.compared_with: _as_measured(position.against)}
            )

    def worse(self, i: int) -> Iterator[Finding]:
        """Say that an entry is shown to be worse than no defense, or than other controls that it has to beat."""
        comparison = self.places[self.entries[i]].against
        if comparison is not None and comparison.verdict == "worse":
            text = f"is worse than {self.rules.compared_with}: {self.numbers(i)}"
            yield self.finding(
                "ruled out", "worse", i, text, against={self.rules.compared_with: _as_measured(comparison)}
            )
        controls = [
            j
            for j in self.standing.controls
            if j != self.standing.undefended and self.pairs.better[j, i] and self.standing.stands_against(j, i)
        ]
        if controls:
            nearest_first = sorted(controls, key=lambda j: (self.pairs.value[j, i], j))
            against = {self.entries[j]: measured(self.pairs, i, j) for j in nearest_first}
            smallest = against[self.entries[nearest_first[0]]]
            kinds = joined([f"{self.entries[j]} ({self.places[self.entries[j]].control})" for j in nearest_first])
            text = f"is worse than {kinds}: by {_size(smallest, self.specs[0].decimals)} {self.specs[0].label}"
            yield self.finding("ruled out", "worse", i, text, against=against)

    def numbers(self, i: int) -> str:
        """Return the number of an entry, that of the undefended one, and their difference with its interval, as text.

        Only for entries that are compared with no defense.
        """
        comparison, spec = self.places[self.entries[i]].against, self.specs[0]
        assert comparison is not None
        numbers = [
            self.values[label]["worst"].number_or(np.nan) for label in (self.entries[i], self.rules.compared_with)
        ]
        mine, plain = (_number(number, spec.decimals) for number in numbers)
        gain = f"gain {_signed(comparison, spec.decimals)}, {several(comparison.units, self.unit(spec))}"
        return f"{spec.label} {mine}, {plain} {self.rules.words.briefly}; {gain}"

    def unit(self, spec: ColumnSpec) -> str:
        """Return what the independent units of a measure are called, such as "photograph"."""
        return spec.cluster_unit or spec.unit or "unit"

    def moves(self, i: int) -> Iterator[Finding]:
        """Say how the measure of an entry changes once attackers know it, where that is shown to help attackers."""
        moved, spec = self.places[self.entries[i]].moved, self.specs[0]
        if moved is None or moved.change.low is None or moved.change.high is None:
            return
        if (moved.change.low > 0) if spec.better == "lower" else (moved.change.high < 0):
            before, after = (f"{x:.{spec.decimals}f}" for x in (moved.before, moved.after))
            verb = "rises" if moved.after > moved.before else "falls"
            text = (
                f"With {self.entries[i]}, {spec.label} {verb} from {before} to {after} once attackers know it, under "
                f"the same attacks: by {_size(moved.change, spec.decimals)}, "
                f"{several(moved.change.units, self.unit(spec))}."
            )
            yield self.finding("shown", "moves", i, text, facts={"change": moved.change})

    def broken(self, i: int) -> Iterator[Finding]:
        """Say which attack leaves less than half of what an entry seems to protect."""
        weakness, spec = self.places[self.entries[i]].broken, self.specs[0]
        if weakness is not None and weakness.attack:
            text = (
                f"{weakness.attack} breaks {self.entries[i]}: against attackers who do not know it, {spec.label} "
                f"improves by {_size(weakness.seems, spec.decimals)} on {self.rules.undefended}; against the worst "
                f"attack by {weakness.holds:.{spec.decimals}f}."
            )
            facts = {"seems": weakness.seems, "rest": weakness.rest}
            yield self.finding("ruled out", "broken", i, text, facts=facts, why=weakness.attack)

    def kept(self, i: int, kind: Kind) -> Iterator[Finding]:
        """Say which gates an entry fails (`kind` "costs"), or which are open ("gate")."""
        unit = self.unit(self.rules.utility.spec)
        for answer in self.places[self.entries[i]].gate_numbers:
            about: dict[str, Any] = {
                "measure": answer.label,
                "decimals": answer.decimals,
                "unit": unit,
                "why": f"{answer.label}, {answer.least}",
            }
            if answer.low is None:
                if kind == "gate" and answer.state == "undecided":
                    text = f"may cost too much: {too_few(answer.units, unit)} to test {answer.label} ({answer.least})"
                    yield self.finding("open", kind, i, text, **about)
                continue
            facts = {"above": Measured(**{name: getattr(answer, name) for name in Measured.model_fields})}
            if kind == "costs" and answer.state == "fails":
                text = f"costs too much: {distance(answer)}"
                yield self.finding("ruled out", kind, i, text, facts=facts, **about)
            if kind == "gate" and answer.state in ("doubtful", "undecided"):
                doubt = _DOUBT if answer.state == "doubtful" else ""
                text = f"may cost too much: {distance(answer)}{_needs(answer, unit)}{doubt}"
                yield self.finding("open", kind, i, text, facts=facts, **about)

    def best(self) -> Iterator[Finding]:
        """Say which candidates may be best, where there are several."""
        candidates, spec = self.standing.may_be_best, self.specs[0]
        if len(candidates) < 2:
            return
        first, *others = candidates
        against = {self.entries[j]: measured(self.pairs, first, j) for j in others}
        counts = [
            comparison.needed
            for comparison in against.values()
            if comparison.value > 0 and comparison.needed is not None
        ]
        more = (
            f"; about {max(counts)} {self.unit(spec)}s would separate {self.entries[first]} from all of them"
            if counts and len(counts) == len(against)
            else ""
        )
        names = joined([self.entries[i] for i in candidates])
        equal = [self.entries[i] for i in self.standing.equal_to_first]
        verb = "equals" if len(equal) == 1 else "equal"
        alike = f"; {joined(equal)} {verb} {self.entries[first]} on every {self.unit(spec)}" if equal else ""
        text = f"Any of {names} may be best{alike}{more}."
        yield self.finding("open", "may be best", first, text, spec, against=against)

    def undecided(self, i: int) -> Iterator[Finding]:
        """Say that an entry is neither shown to be better than no defense nor worse, and what would settle it."""
        comparison, spec = self.places[self.entries[i]].against, self.specs[0]
        if comparison is None or comparison.verdict != "undecided":
            return
        plain = self.rules.compared_with
        if comparison.low is None:
            text = f"is not compared with {plain}: {too_few(comparison.units, self.unit(spec))}"
        else:
            text = f"is not separated from {plain}: {self.numbers(i)}{_needs(comparison, self.unit(spec))}"
        yield self.finding("open", "undecided", i, text, against={plain: _as_measured(comparison)})

    def withheld(self, i: int) -> Iterator[Finding]:
        """Say why an entry has no number, or only an upper bound, or lacks a secondary measure."""
        label = self.entries[i]
        position = self.places[label]
        if not position.complete:
            text = withheld(self.rules, label, self.values)
            yield self.finding("open", "incomplete", i, text, why=self.rules.unknown.get(label, ""))
        elif position.lacks:
            text = f"could not be denied a win by every measure: {not_measured(position.lacks)}"
            yield self.finding("open", "incomplete", i, text, why=joined(list(position.lacks)))
        if position.flags:
            flags = "; ".join(position.flags)
            text = f"{BARS[position.doubt][0]}, and its number is only an upper bound: {flags}"
            yield self.finding("open", "flagged", i, text, why=flags)


def _size(measured: Measured, decimals: int) -> str:
    """Return the size of a difference whose interval does not hold 0, with the interval of that size."""
    assert measured.low is not None
    assert measured.high is not None
    ends = sorted(map(abs, (measured.low, measured.high)))
    return f"{_number(abs(measured.value), decimals)} [{_number(ends[0], decimals)}, {_number(ends[1], decimals)}]"


def _number(value: float, decimals: int) -> str:
    """Return a number with `decimals` decimals; one that would then be shown as 0 has two digits instead."""
    text = f"{value:.{decimals}f}"
    return f"{value:.2g}" if value and not text.strip("-0.") else text


def _signed(measured: Measured, decimals: int) -> str:
    """Return a difference with its sign and its ends."""
    numbers = [measured.value, *(end for end in (measured.low, measured.high) if end is not None)]
    value, *ends = (f"{'' if number < 0 else '+'}{_number(number, decimals)}" for number in numbers)
    return value + (f" [{', '.join(ends)}]" if ends else "")


def _as_measured(comparison: Against) -> Measured:
    return Measured(**{name: getattr(comparison, name) for name in Measured.model_fields})


def _wilcoxon(comparison: Against) -> str:
    return "" if comparison.p_holm is None else f", Wilcoxon p {comparison.p_holm:.2g} (Holm)"


def _needs(result: Measured | Kept, unit: str) -> str:
    """Say how many units would settle an open comparison; "" without an interval, or where the entry is not ahead."""
    if result.low is None or (isinstance(result, Against) and result.value <= 0):
        return ""
    many = f"more than {MOST:,}" if result.needed is None else f"about {result.needed}"
    return f"; {many} {unit}s would settle it (80 % power at the observed difference)"

"""What a board found, sentence by sentence: shown, ruled out, or open. Each is made of the numbers that it carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from imharness.ranking.claim import some
from imharness.ranking.rules import Contest
from imharness.ranking.standing import Standing
from imharness.results.findings import Finding, Kind, Measured, Tier
from imharness.results.rankings import Kept, Place
from imharness.results.tables import ColumnSpec, Value, joined, several
from imharness.statistics.differences import MOST, Differences, Told

_DOUBT = "; tested alone it fails, so that it cannot win"


def measured(told: Told, *place: int) -> Measured:
    """Return one mean of several as data."""
    low, high = float(told.low[place]), float(told.high[place])
    ends = {} if np.isnan(low) else {"low": low, "high": high}
    return Measured(
        value=float(told.value[place]), units=int(told.units[place]), needed=told.needed_for(*place), **ends
    )


def findings_of(
    rules: Contest, standing: Standing, places: Mapping[str, Place], values: Mapping[str, Mapping[str, Value]]
) -> tuple[Finding, ...]:
    """Return every sentence that a ranking states: first what is shown, then what is ruled out, then what is open."""
    return tuple(_Sentences(rules, standing, places, values).all())


class _Sentences:
    def __init__(
        self,
        rules: Contest,
        standing: Standing,
        places: Mapping[str, Place],
        values: Mapping[str, Mapping[str, Value]],
    ) -> None:
        self.rules, self.standing, self.places, self.values = rules, standing, places, values
        self.entries, self.told = rules.scores.entries, standing.told[0]
        self.specs = [rules.protection.spec, *(own.protection.spec for own in rules.yardsticks)]
        self.own = [i for i, label in enumerate(self.entries) if not places[label].control]
        self.complete = [i for i in self.own if places[self.entries[i]].complete]

    def all(self) -> Iterator[Finding]:
        for i in self.complete:
            if not self.places[self.entries[i]].flags:
                yield from self.better(i)
        for part in (self.moves, self.worse, self.broken):
            for i in self.complete:
                yield from part(i)
        for i in self.own:
            yield from self.kept(i, "costs")
        yield from self.best()
        for i in self.complete:
            if i in self.standing.candidates:
                yield from self.not_told(i, self.standing.against_controls, self.standing.rivals)
            else:
                plain = [c for c in self.standing.rivals if self.entries[c] == self.rules.undefended]
                yield from self.not_told(i, self.standing.told, plain)
        for i in self.own:
            yield from self.kept(i, "gate")
            yield from self.withheld(i)

    def made(
        self, tier: Tier, kind: Kind, i: int, text: str, spec: ColumnSpec | None = None, **facts: object
    ) -> Finding:
        own = spec or self.specs[0]
        return Finding.model_validate(
            {
                "tier": tier,
                "kind": kind,
                "entry": self.entries[i],
                "measure": own.label,
                "decimals": own.decimals,
                "unit": own.cluster_unit or own.unit or "unit",
                "text": f"{self.entries[i]} {text}." if kind != "may be best" else text,
                **facts,
            }
        )

    def better(self, i: int) -> Iterator[Finding]:
        """Say whom an entry is shown to be better than; all differences hold at once."""
        rows = np.flatnonzero(self.told.better[i]).tolist()
        if rows:
            order = sorted(rows, key=lambda j: (self.told.value[i, j], j))
            against = {self.entries[j]: measured(self.told, i, j) for j in order}
            names = joined(some(list(against)))
            yield self.made(
                "shown", "better", i, f"protects better than {names}: {self.by(against, order[0])}", against=against
            )

    def worse(self, i: int) -> Iterator[Finding]:
        """Say which controls are shown to protect better than an entry."""
        rows = [j for j in self.standing.rivals if self.told.better[j, i]]
        if rows:
            order = sorted(rows, key=lambda j: (self.told.value[j, i], j))
            against = {self.entries[j]: measured(self.told, i, j) for j in order}
            kinds = joined([f"{self.entries[j]} ({self.places[self.entries[j]].control})" for j in order])
            text = f"protects worse than {kinds}, a control: {self.by(against, order[0])}"
            yield self.made("ruled out", "worse", i, text, against=against)

    def by(self, against: Mapping[str, Measured], j: int) -> str:
        own, spec = against[self.entries[j]], self.specs[0]
        way = "lower" if (spec.better == "lower") == (own.value > 0) else "higher"
        nearest = f", {self.entries[j]} the nearest" if len(against) > 1 else ""
        return (
            f"{spec.label} is {way} by {_size(own, spec.decimals)}, over {several(own.units, self.unit(spec))}{nearest}"
        )

    def unit(self, spec: ColumnSpec) -> str:
        return spec.cluster_unit or spec.unit or "unit"

    def moves(self, i: int) -> Iterator[Finding]:
        """Say how far knowledge of an entry moves its measure, where it is shown to."""
        moved, spec = self.places[self.entries[i]].moved, self.specs[0]
        if moved is None or moved.change.low is None or moved.change.high is None:
            return
        if (moved.change.low > 0) if spec.better == "lower" else (moved.change.high < 0):
            before, after = (f"{x:.{spec.decimals}f}" for x in (moved.before, moved.after))
            text = (
                f"moves from {before} to {after} {spec.label} once the attacker knows it, over the same attacks: by "
                f"{_size(moved.change, spec.decimals)}, over {several(moved.change.units, self.unit(spec))}"
            )
            yield self.made("shown", "moves", i, text, facts={"change": moved.change})

    def broken(self, i: int) -> Iterator[Finding]:
        """Say which attack leaves less than half of what an entry seems to protect."""
        own, spec = self.places[self.entries[i]].broken, self.specs[0]
        if own is not None and own.attack:
            text = (
                f"is broken by {own.attack}: attackers that do not know it leave it "
                f"{_size(own.seems, spec.decimals)} better in {spec.label} than {self.rules.undefended}, and the worst "
                f"attack {own.holds:.{spec.decimals}f}, less than half of that"
            )
            facts = {"seems": own.seems, "rest": own.rest}
            yield self.made("ruled out", "broken", i, text, facts=facts, why=own.attack)

    def kept(self, i: int, kind: Kind) -> Iterator[Finding]:
        """Say what an entry is shown to lose too much of, or for what the data do not show whether it does."""
        unit = self.unit(self.rules.utility.spec)
        for own in self.places[self.entries[i]].kept:
            about: dict[str, Any] = {
                "measure": own.label,
                "decimals": own.decimals,
                "unit": unit,
                "why": f"{own.label}, {own.least}",
            }
            if own.low is None and own.state == "not told" and kind == "gate":
                text = f"has {own.label} of too few {unit}s, {own.units}, to show whether it is {own.least}"
                yield self.made("open", kind, i, text, **about)
            elif own.low is not None and own.state in (("fails",) if kind == "costs" else ("doubtful", "not told")):
                amount = f"{own.value:+.{own.decimals}f} [{own.low:+.{own.decimals}f}, {own.high:+.{own.decimals}f}]"
                from_least = f"{amount} from the least that passes"
                doubt = _DOUBT if own.state == "doubtful" else ""
                text = (
                    f"costs too much: its {own.label}, which has to be {own.least}, lies {from_least}"
                    if kind == "costs"
                    else f"has {own.label} that the data do not show to be {own.least}: it lies {from_least}"
                    f"{_needs(own, unit)}{doubt}"
                )
                facts = {"above": Measured(**{name: getattr(own, name) for name in Measured.model_fields})}
                tier: Tier = "ruled out" if kind == "costs" else "open"
                yield self.made(tier, kind, i, text, facts=facts, **about)

    def best(self) -> Iterator[Finding]:
        """Say which candidates may be best, by each yardstick: those that none is shown by it to be better than."""
        named = self.standing.may_be_best
        for told, spec in zip(self.standing.told, self.specs, strict=True):
            own = [j for j in named if not told.better[named, j].any()]
            if len(own) < 2:
                continue
            first = own[0]
            against = {self.entries[j]: measured(told, first, j) for j in own[1:] if not np.isnan(told.value[first, j])}
            if not against:
                continue
            needs = {label: each.needed for label, each in against.items() if each.value > 0}
            counts = [count for count in needs.values() if count is not None]
            more = (
                f"; to tell {self.entries[first]} from the others, about {max(counts)} {self.unit(spec)}s are needed"
                if counts and len(counts) == len(against)
                else ""
            )
            names = joined([self.entries[i] for i in own])
            text = f"Any of {names} may be best; by {spec.label} the data do not show which{more}."
            yield self.made("open", "may be best", first, text, spec, against=against)

    def not_told(self, i: int, by: Sequence[Differences], rivals: Sequence[int]) -> Iterator[Finding]:
        """Say than which controls an entry is not shown to be better, by each yardstick, and what it would take.

        Of controls that the first yardstick shows to be better, `worse` tells.
        """
        for told, spec in zip(by, self.specs, strict=True):
            first = told is by[0]
            rows = [c for c in rivals if not told.better[i, c] and not (first and self.told.better[c, i])]
            for c in rows:
                if np.isnan(told.value[i, c]):
                    continue
                own, control = measured(told, i, c), self.entries[c]
                side = (
                    "no entry is ahead"
                    if own.value == 0
                    else "the control is ahead"
                    if own.value < 0
                    else f"it is ahead{_needs(own, self.unit(spec))}"
                )
                text = (
                    f"is not shown to be better than {control} ({self.places[control].control}) in {spec.label}: the "
                    f"advantage is {_signed(own, spec.decimals)}, over {several(own.units, self.unit(spec))}; {side}"
                )
                yield self.made("open", "not told", i, text, spec, against={control: own})

    def withheld(self, i: int) -> Iterator[Finding]:
        """Say why an entry has no number, or only an upper bound."""
        label = self.entries[i]
        place, coverage = self.places[label], self.values[label]["coverage"]
        if not place.complete:
            why = self.rules.unknown.get(label, "")
            text = (
                f"is not ranked: {why}"
                if why
                else f"is incomplete: it has {min(coverage.number_or(0.0), 99):.0f}% of the units and settings that "
                "count"
            )
            yield self.made("open", "incomplete", i, text, why=why)
        if place.flags:
            flags = "; ".join(place.flags)
            yield self.made("open", "flagged", i, f"protects at most as well as it seems: {flags}", why=flags)


def _size(own: Measured, decimals: int) -> str:
    """Return the size of a difference whose interval does not hold 0, with the interval of that size."""
    assert own.low is not None
    assert own.high is not None
    ends = sorted(map(abs, (own.low, own.high)))
    return f"{_number(abs(own.value), decimals)} [{_number(ends[0], decimals)}, {_number(ends[1], decimals)}]"


def _number(value: float, decimals: int) -> str:
    """Return a number with so many decimals, or two digits of one above 0 that would be shown as 0."""
    text = f"{value:.{decimals}f}"
    return f"{value:.2g}" if value and not text.strip("-0.") else text


def _signed(own: Measured, decimals: int) -> str:
    ends = "" if own.low is None else f" [{own.low:+.{decimals}f}, {own.high:+.{decimals}f}]"
    return f"{own.value:+.{decimals}f}{ends}"


def _needs(own: Measured | Kept, unit: str) -> str:
    if own.low is None:
        return ""
    many = f"more than {MOST:,}" if own.needed is None else f"about {own.needed}"
    return f"; {many} {unit}s would tell in four of five such studies, were it as large as it looks"

"""The headline of a ranking: who wins, or which entries may be best, or why the data show nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imharness.ranking.rules import Contest
from imharness.ranking.standing import Standing
from imharness.results.rankings import Place
from imharness.results.tables import ColumnSpec, Value, joined
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import MOST, Differences

NAMED = 4
"""Of more entries than these the headline names the first ones; all are in the data."""
NO_CONTROL = "No control that an entry has to be better than was measured in every setting."
Values = Mapping[str, Mapping[str, Value]]


def claim_of(
    rules: Contest, standing: Standing, complete: Sequence[int], places: Mapping[str, Place], values: Values
) -> str:
    """Return the headline; it ends with what stands in for something real."""
    said = _said(rules, standing, complete, places, values)
    return f"{said} Proxies: {'; '.join(rules.proxies)}." if rules.proxies else said


def _said(
    rules: Contest, standing: Standing, complete: Sequence[int], places: Mapping[str, Place], values: Values
) -> str:
    entries = rules.scores.entries
    if not standing.candidates:
        gap = _undefined(rules, complete, places, values)
        kept = f"keeps {rules.utility.spec.label} within {rules.share:.0%} of {rules.undefended}"
        return f"{gap or f'No entry that met every attack {kept}'}: there is no winner."
    first = standing.may_be_best[0]
    if not standing.proven:
        doubt = standing.doubt(first)
        assert doubt is not None
        yardstick, rival = doubt
        spec, told = _specs(rules)[yardstick], standing.against_controls[yardstick]
        reason = not_told(spec, told, first, rival)
        control = f"{entries[rival]} ({places[entries[rival]].control})"
        return f"This data cannot tell {entries[first]} from {control}: {reason}."
    if standing.winner is not None:
        return _one(rules, standing, places, values)
    return _several(rules, standing, values)


def _one(rules: Contest, standing: Standing, places: Mapping[str, Place], values: Values) -> str:
    worst, utility = rules.protection.spec, rules.utility.spec
    label = rules.scores.entries[standing.may_be_best[0]]
    plain = values.get(rules.undefended, {})
    said = rules.claim.format(
        winner=label,
        protection=_shown(values[label]["worst"], worst.decimals),
        without=_shown(plain.get("worst"), worst.decimals),
        utility=_shown(values[label]["utility"], utility.decimals),
        plain=_shown(plain.get("utility"), utility.decimals),
    )
    if len(standing.candidates) == 1:
        said += " It is the only complete entry that is neither flagged nor shown to cost too much."
    if not standing.rivals:
        said += f" {NO_CONTROL}"
    open_gates = [own for own in places[label].kept if own.state == "not told"]
    return said + "".join(f" The data do not show whether its {own.label} is {own.least}." for own in open_gates)


def _several(rules: Contest, standing: Standing, values: Values) -> str:
    worst = rules.protection.spec
    named = [rules.scores.entries[i] for i in standing.may_be_best]
    better = [rules.scores.entries[i] for i in standing.proven]
    measures = joined([own.label for own in _specs(rules)])
    shown = [f"{label} {_shown(values[label]['worst'], worst.decimals)}" for label in named[:NAMED]]
    without = _shown(values.get(rules.undefended, {}).get("worst"), worst.decimals)
    which = "All of them are" if better == named else f"{joined(some(better))} {'is' if len(better) == 1 else 'are'}"
    proven = f"{which} better than every control." if standing.rivals else NO_CONTROL
    return (
        f"{joined(some(named))} may be best: this data does not tell which, by {measures}. {worst.label}: "
        f"{', '.join(shown)}; {without} without a defense. {proven}"
    )


def some(labels: Sequence[str]) -> list[str]:
    """Return the first labels, and how many more there are."""
    return [*labels[:NAMED], *([f"{len(labels) - NAMED} more"] if len(labels) > NAMED else [])]


def _specs(rules: Contest) -> list[ColumnSpec]:
    return [rules.protection.spec, *(own.protection.spec for own in rules.yardsticks)]


def _undefined(rules: Contest, complete: Sequence[int], places: Mapping[str, Place], values: Values) -> str:
    """Say why it is not known which entries keep their utility; empty where it is known of any that could win."""
    entries = [rules.scores.entries[i] for i in complete]
    able = [label for label in entries if not places[label].control and not places[label].flags]
    if not able or any(places[label].gate != "not measured" for label in able):
        return ""
    plain = values.get(rules.undefended, {}).get("utility")
    whose = rules.undefended if plain is None or plain.value is None else able[0]
    value = values.get(whose, {}).get("utility")
    why = value.missing if value is not None and value.missing else "not measured on every unit"
    return f"{rules.utility.spec.label} of {whose} is not defined ({why}), so that no entry can be said to keep it"


def not_told(spec: ColumnSpec, told: Differences, first: int, rival: int) -> str:
    """Say why an entry is not shown to be better than another one."""
    count = int(told.units[first, rival])
    unit = spec.cluster_unit or spec.unit or "unit"
    if count < FEWEST:
        return f"they share {count} {unit}{'' if count == 1 else 's'}, but an interval needs at least {FEWEST}"
    if not told.value[first, rival] > 0:
        return f"in {spec.label} over {count} {unit}s it is not ahead"
    needed = told.needed(first, rival)
    many = f"more than {MOST:,}" if needed is None else f"about {needed}"
    return (
        f"{count} {unit}s do not show a difference in {spec.label}; {many} would in four of five such studies, were "
        "the difference as large as it looks"
    )


def _shown(value: Value | None, decimals: int) -> str:
    return "an unknown value" if value is None or value.value is None else f"{value.value:.{decimals}f}"

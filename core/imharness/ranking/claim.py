"""The headline of a ranking: who wins, or which entries may be best, or why the data show nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imharness.ranking.rules import Contest
from imharness.ranking.standing import Standing
from imharness.results.rankings import Place
from imharness.results.tables import ColumnSpec, Value, joined, several
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import MOST, Differences

NAMED = 4
"""Of more entries than these the headline names the first ones; all are in the data."""
NO_CONTROL = "No control that an entry has to be better than was measured in every setting."
LACKS, FLAGGED, COSTS, DOUBTFUL, UNMEASURED = (
    ("lacks", "lack", "an attack or a unit that others met"),
    ("is", "are", "flagged"),
    ("costs", "cost", "too much"),
    ("costs", "cost", "too much if tested alone"),
    ("was", "were", "not measured on all that has to be kept"),
)
"""What keeps an entry from winning: the verb of one entry, that of several, and the rest."""
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
    if not standing.candidates:
        gap = _undefined(rules, complete, places, values)
        nobody = f"No entry may win, as {why}" if (why := barred(rules, places)) else "Only controls were measured"
        return f"{gap or nobody}: there is no winner."
    if not standing.proven:
        return _unproven(rules, standing, places)
    if standing.winner is not None:
        return _one(rules, standing, places, values)
    return _several(rules, standing, values)


def _unproven(rules: Contest, standing: Standing, places: Mapping[str, Place]) -> str:
    """Say which control the first entry is not shown to be better than, and whether that one is shown to be better."""
    entries, first = rules.scores.entries, standing.may_be_best[0]
    doubt = standing.doubt(first)
    assert doubt is not None
    yardstick, rival = doubt
    spec, told = _specs(rules)[yardstick], standing.against_controls[yardstick]
    control = f"{entries[rival]} ({places[entries[rival]].control})"
    if standing.told[yardstick].better[rival, first]:
        many = several(int(told.units[first, rival]), spec.cluster_unit or spec.unit or "unit")
        return (
            f"No entry that may be best is better than every control: {control} is shown to be better than "
            f"{entries[first]} in {spec.label}, over {many}."
        )
    return f"This data cannot tell {entries[first]} from {control}: {not_told(spec, told, first, rival)}."


def barred(rules: Contest, places: Mapping[str, Place], apart: str = "") -> str:
    """Return in words what keeps each entry but one from winning, controls left out; "" where nothing does."""
    groups = dict[tuple[str, str, str], list[str]]()
    for label in rules.scores.entries:
        if label != apart and not places[label].control and (why := _bar(places[label])):
            groups.setdefault(why, []).append(label)
    order = sorted(groups, key=lambda why: -len(groups[why]))
    return "; ".join(f"{joined(some(own := groups[why]))} {why[len(own) > 1]} {why[2]}" for why in order)


def _bar(place: Place) -> tuple[str, str, str] | None:
    if not place.complete:
        return LACKS
    if place.flags:
        return FLAGGED
    return {"fails": COSTS, "doubtful": DOUBTFUL, "not measured": UNMEASURED}.get(place.gate)


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
        others = barred(rules, places, label)
        said += f" No other entry may win: {others}." if others else " No other entry was measured."
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

"""The headline of a ranking, in at most 20 words and with its numbers: the only sentence that says who wins.

The first rule that holds speaks: nobody may win; there is a winner; measures disagree; a control is shown to be better
than the first; no defense itself is incomplete; the first, or else another one, is shown to be better than no defense;
all that may win are worse; or none is shown to be better, and the headline says by how much any could be.
Of several forms of a sentence the first one that is short enough is taken. An entry has a headline of its own, by the
same rules; where a row has no ranking, its place in its table is the headline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.ranking.rules import Contest, Words
from imharness.ranking.standing import Disagreement, Standing
from imharness.results.entries import NOT_JUDGED
from imharness.results.rankings import Kept, Outcome, Place
from imharness.results.tables import ColumnSpec, Table, Value, joined, several, too_few

LONGEST = 20
"""The most words of a headline; the label of an entry counts as what it has."""
NAMED = 2
"""The most entries that a headline names; of more, it names the first and says how many others there are."""
Values = Mapping[str, Mapping[str, Value]]
BARS: Mapping[str, tuple[str, str]] = {
    "incomplete": ("is incomplete", "are incomplete"),
    "flagged": ("is flagged", "are flagged"),
    NOT_JUDGED: ("is not judged yet", "are not judged yet"),
    "fails": ("costs too much", "cost too much"),
    "doubtful": ("costs too much if tested alone", "cost too much if tested alone"),
    "not measured": ("was not measured on all that has to be kept", "were not measured on all that has to be kept"),
}
"""What bars entries from winning, in words, for one and for several."""


def headline_of(
    rules: Contest, entry: str, standing: Standing, places: Mapping[str, Place], values: Values
) -> tuple[Outcome, str]:
    """Return what a ranking says first of all, and its kind; see the module. `entry`: what a row is ("defense")."""
    first = standing.first
    if first is None:
        return "nobody", rules.void or _nobody(rules, entry, places, values)
    if standing.winner is not None:
        return "winner", f"{_leading(rules, first, values)}."
    if (disagreement := standing.disagreement) is not None:
        return "measures disagree", _disagreeing(rules, standing, first, disagreement)
    if (rival := _better_control(standing, first)) is not None:
        return "worse", _below(rules, entry, standing, places, values, rival)
    if standing.lacks_none:
        return "leader", _incomparable(rules, first, values)
    better = [i for i in standing.may_be_best if standing.better_than_none(i)]
    if standing.undefended is None or first in better:
        return "leader", _leader(rules, standing, first, values)
    if better:
        return "leader", _behind_undecided(rules, better[0], first, values)
    against = standing.against
    assert against is not None
    if np.all(against.worse[list(standing.candidates)]):
        return "worse", _worse(rules, entry, first, values)
    ends = against.high[list(standing.candidates)]
    if np.isnan(ends).any():
        return "bound", f"{_few(rules, standing, first)} to compare any {entry} with {rules.baseline_name}."
    return "bound", _bound(rules, entry, float(ends.max()), values)


def headline_of_entry(rules: Contest, i: int, standing: Standing, position: Place, values: Values) -> tuple[str, ...]:
    """Return what a ranking says of the entry at position `i` first of all, and then what bars it from winning, if it
    costs too much: one or two sentences. `position`: what the ranking states about it."""
    label, plain = rules.scores.entries[i], rules.compared_with
    if not position.complete:
        return (f"{label} {withheld(rules, label, values)}.",)
    if position.flags:
        return (_about(rules, label, f"{BARS[position.doubt][0]}, and its number is only an upper bound: ", values),)
    cost = _cost(rules, label, position, values)
    if i == standing.winner:
        return (f"{_leading(rules, i, values)}.", *cost)
    if _only_seems(position) and (seeming := _seeming(rules, label, values)):
        return (seeming, *cost)
    if position.against is None:
        return (_about(rules, label, "has ", values), *cost)
    verdicts = {"better": "is better than", "worse": "is worse than", "undecided": "is not separated from"}
    verdict = "is not compared with" if position.against.low is None else verdicts[position.against.verdict]
    return (_about(rules, label, f"{verdict} {plain}: ", values), *cost)


def headline_of_row(table: Table, label: str) -> str:
    """Return what a table without a ranking says of a row: its number, and that of the first other row.

    "" where the row has no number in the column that ranks the table.
    """
    column = next((column for column in table.columns if column.key == table.ranked_by), None)
    numbers = {row.label: value for row in table.rows if (value := row.number(table.ranked_by)) is not None}
    if column is None or label not in numbers:
        return ""
    mine, others = numbers.pop(label), list(numbers.items())
    text = f"{label}: {column.label} {mine:.{column.decimals}f}"
    if not others:
        return f"{text}."
    other, number = others[0]
    at = [row.label for row in table.rows if row.label in {label, *numbers}].index(label) + 1
    return _fitting(
        f"{text}, number {at} of {several(len(others) + 1, table.entry)}; {other} has {number:.{column.decimals}f}.",
        f"{text}; {other} has {number:.{column.decimals}f}.",
    )


def withheld(rules: Contest, label: str, values: Values) -> str:
    """Say why an entry is incomplete, without its label."""
    if why := rules.unknown.get(label, ""):
        return f"is not ranked: {why}"
    share = min(values[label]["coverage"].number_or(0.0), 99)
    return f"is incomplete: it was measured in {share:.0f} % of the settings that count"


def distance(measure: Kept) -> str:
    """Say how far what an entry has lies from the least that passes; it was measured."""
    assert measure.value is not None
    assert measure.low is not None
    assert measure.high is not None
    low, high = measure.low, measure.high
    ends = sorted((low, high) if measure.value >= 0 else (-low, -high))
    amount, *between = (f"{x:.{measure.decimals}f}" for x in (abs(measure.value), *ends))
    side = "below" if measure.value < 0 else "above"
    return f"{measure.label} is {amount} [{', '.join(between)}] {side} the threshold ({measure.least})"


def _about(rules: Contest, label: str, what: str, values: Values) -> str:
    return _fitting(*(f"{label} {what}{_against_plain(rules, label, values, brief=brief)}." for brief in (False, True)))


def _only_seems(position: Place) -> bool:
    """Say whether an entry protects against attackers who do not know it, and less or nothing under the worst attack.

    The first is shown; the worst attack leaves less than half of that, or nothing is shown to be left.
    """
    weakness, against = position.broken, position.against
    if weakness is None or weakness.seems.low is None or weakness.seems.low <= 0:
        return False
    return bool(weakness.attack) or (against is not None and against.verdict != "better")


def _seeming(rules: Contest, label: str, values: Values) -> str:
    """Say what attackers who do not know an entry reach, and what the worst attack does; "" where that is unknown."""
    words, plain = rules.words, rules.compared_with
    before, after = ([_amount(rules, values, name, key) for name in (label, plain)] for key in ("unaware", "worst"))
    if not all((*before, *after)):
        return ""
    seems = f"{label} looks strong: {before[0]} {words.of}, {before[1]} {words.briefly}"
    return _fitting(
        f"{seems}; under the worst attack {after[0]}, {after[1]} {words.briefly}.",
        f"{seems}; worst attack {after[0]}, {after[1]} {words.briefly}.",
        f"{seems}; worst attack {after[0]}.",
    )


def _cost(rules: Contest, label: str, position: Place, values: Values) -> tuple[str, ...]:
    """Say what an entry does not keep, with both numbers; nothing where it keeps enough, or that is undecided."""
    if position.able:
        return ()
    bar, spec = BARS[position.gate][0], rules.utility.spec
    lost = next((measure for measure in position.gate_numbers if measure.state == position.gate), None)
    if lost is None or lost.low is None:
        return (f"It {bar}.",)
    mine, plain = (values.get(name, {}).get("utility", Value()).value for name in (label, rules.undefended))
    if lost.label == spec.label and mine is not None and plain is not None:
        numbers = f"{spec.label} {mine:.{spec.decimals}f}, {plain:.{spec.decimals}f}"
        words, same = rules.words, rules.undefended == rules.compared_with
        withouts = (words.without, words.briefly) if same else (f"for {rules.undefended}",)
        return (_fitting(*(f"It {bar}: {numbers} {without}." for without in withouts)),)
    return (f"It {bar}: {distance(lost)}.",)


def _fitting(*forms: str) -> str:
    """Return the first of several forms of a sentence that is short enough, or the last one."""
    return next((form for form in forms if len(form.split()) <= LONGEST), forms[-1])


def _bound(rules: Contest, entry: str, most: float, values: Values) -> str:
    """Say what no entry that may win does more of. `most`: the largest end of all intervals."""
    words, plain = rules.words, values.get(rules.compared_with, {}).get("worst", Value()).value
    most, limits = max(0.0, most), rules.protection.spec.limits
    if plain is not None and limits is not None:  # no entry can go beyond what the measure can be
        most = min(most, limits[1] - plain if rules.sign > 0 else plain - limits[0])

    def form(without: str) -> str:
        limit = words.limit.format(
            bound=_rounded_up(words, most),  # in the unit of what follows, so no share of it
            plain=_amount(rules, values, rules.compared_with),
            of=words.of,
            without=without,
        )
        return f"No {entry} that may win {limit.rstrip()}."

    return _fitting(form(words.without), form("" if words.limit.endswith("{without}") else words.without))


def _rounded_up(words: Words, number: float) -> str:
    """Return the number of an amount as text, rounded up: a bound that is rounded down does not hold."""
    text, scale = _figure(words, number), float(_figure(words, 1.0))  # 100 where an amount is in %
    last_digit = 10.0 ** -len(text.partition(".")[2]) / scale
    return text if float(text) >= scale * number * (1 - 1e-9) else _figure(words, number + last_digit / 2)


def _figure(words: Words, number: float) -> str:
    """Return an amount without its unit: "57" of "57 %"."""
    return words.amount(number).partition(" ")[0]


def _better_control(standing: Standing, first: int) -> int | None:
    """Return the rival that all pairs at once show to be better than the first one, if any; the farthest ahead."""
    pairs = standing.pairs[0]
    ahead = [i for i in standing.rivals if pairs.better[i, first] and i != standing.undefended]
    return max(ahead, key=lambda i: (pairs.value[i, first], -i), default=None)


def _below(
    rules: Contest, entry: str, standing: Standing, places: Mapping[str, Place], values: Values, rival: int
) -> str:
    """Say which control is shown to be better: than all that may win, or than the one that is ahead."""
    assert standing.first is not None
    control, label = rules.scores.entries[rival], rules.scores.entries[standing.first]
    every = control not in rules.matched and bool(standing.pairs[0].better[rival, list(standing.candidates)].all())
    whom = f"every {entry} that may win" if every else f"{label}, which leads"
    mine = _amount(rules, values, label)
    numbers = f"{_amount(rules, values, control)} {rules.words.of}, {f'{label} ' if every else ''}{mine}"
    return _fitting(
        f"{control} ({places[control].control}) beats {whom}: {numbers}.",
        f"{control} beats {whom}: {numbers}.",
        f"{control} beats {label}: {_amount(rules, values, control)} {rules.words.of}, {mine}.",
    )


def _leading(rules: Contest, i: int, values: Values) -> str:
    label = rules.scores.entries[i]
    return f"{label} {rules.words.lead}: {_against_plain(rules, label, values)}"


def _behind_undecided(rules: Contest, i: int, first: int, values: Values) -> str:
    """Say which entry is better than no defense, though another one, of which that is not shown, is ahead."""
    label, plain = rules.scores.entries[i], rules.compared_with
    rest = f"{rules.scores.entries[first]} leads, but is undecided."
    return _fitting(
        f"No winner. {label} is better than {plain}: {_against_plain(rules, label, values)}; {rest}",
        f"No winner. {label} beats {plain}: {_against_plain(rules, label, values, brief=True)}; {rest}",
        f"{label} beats {plain}: {_against_plain(rules, label, values, brief=True)}; {rest}",
    )


def _incomparable(rules: Contest, first: int, values: Values) -> str:
    """Say that no defense lacks an attack or a unit, so that nobody is shown to be better than it."""
    label, plain = rules.scores.entries[first], rules.compared_with
    lead = f"{label} leads with {_amount(rules, values, label)} {rules.words.of}."
    return _fitting(
        f"No winner: {plain} is incomplete, and nothing is compared with it. {lead}",
        f"No winner: {plain} is incomplete. {lead}",
    )


def _against_plain(rules: Contest, label: str, values: Values, *, brief: bool = False) -> str:
    plain, words = _amount(rules, values, rules.compared_with), rules.words
    without = words.briefly if brief else words.without
    return f"{_amount(rules, values, label)} {words.of}" + (f", {plain} {without}" if plain else "")


def _leader(rules: Contest, standing: Standing, first: int, values: Values) -> str:
    label, near = rules.scores.entries[first], [rules.scores.entries[i] for i in standing.not_behind]
    whole, brief = (
        f"{label} leads with {_against_plain(rules, label, values, brief=short)}" for short in (False, True)
    )
    if not near:
        return _fitting(f"No winner. {whole}.", f"No winner. {brief}.", f"{brief}.")
    spec, names = rules.protection.spec, joined(some(near))
    units = max((int(standing.pairs[0].units[first, i]) for i in standing.not_behind), default=0)
    counted = several(units, spec.cluster_unit or spec.unit or "unit")
    return _fitting(
        f"No winner. {whole}; {counted} cannot separate it from {names}.",
        f"No winner. {brief}; {counted} cannot separate it from {names}.",
        f"No winner. {brief}; not separated from {names}.",
        f"{brief}; not separated from {names}.",
        f"{brief}; not separated from {several(len(near), 'other')}.",
    )


def _disagreeing(rules: Contest, standing: Standing, first: int, disagreement: Disagreement) -> str:
    specs, entries = specs_of(rules), rules.scores.entries
    lead, back = standing.pairs[0], standing.pairs[disagreement.measure]
    gain, loss = float(lead.value[first, disagreement.entry]), float(back.value[disagreement.entry, first])
    by, opposite, other = specs[0], specs[disagreement.measure], entries[disagreement.entry]
    return (
        f"Measures disagree: {entries[first]} leads {other} by {gain:.{by.decimals}f} {by.label}, but {other} is "
        f"better by {loss:.{opposite.decimals}f} {opposite.label}."
    )


def _worse(rules: Contest, entry: str, first: int, values: Values) -> str:
    label = rules.scores.entries[first]
    return _fitting(
        *(
            f"Every {entry} that may win does worse: at best {_against_plain(rules, label, values, brief=brief)}."
            for brief in (False, True)
        )
    )


def _few(rules: Contest, standing: Standing, first: int) -> str:
    assert standing.against is not None
    spec = rules.protection.spec
    return too_few(int(standing.against.units[first]), spec.cluster_unit or spec.unit or "unit")


def _nobody(rules: Contest, entry: str, places: Mapping[str, Place], values: Values) -> str:
    able = [
        label for label, position in places.items() if position.complete and not position.control and not position.flags
    ]
    plain = values.get(rules.undefended, {}).get("utility", Value())
    if able and plain.missing and all(places[label].gate == "not measured" for label in able):
        undefined = f"No {entry} may win: {rules.utility.spec.label} without a defense is not defined"
        return _fitting(f"{undefined} ({plain.missing}).", f"{undefined}.")
    bars = barred(places)
    if not bars:
        return f"No {entry} was measured beside the controls."
    counts = [f"{len(labels)} {BARS[why][len(labels) > 1]}" for why, labels in bars.items()]
    sizes = [len(labels) for labels in bars.values()]
    others = [[f"{sum(sizes[k:])} for other reasons"] if k < len(counts) else [] for k in range(len(counts) + 1)]
    return _fitting(
        *(f"No {entry} may win: {'; '.join(counts[:k] + others[k])}." for k in range(len(counts), 0, -1)),
    )


def barred(places: Mapping[str, Place]) -> dict[str, list[str]]:
    """Return what bars entries from winning, with their labels; what bars most comes first. Controls are left out."""
    groups: dict[str, list[str]] = {}
    for label, position in places.items():
        if not position.control and (why := bar_of(position)):
            groups.setdefault(why, []).append(label)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def bar_of(position: Place) -> str:
    """Return what bars an entry from winning, a key of `BARS`; "" where nothing does."""
    if not position.complete:
        return "incomplete"
    if position.flags:
        return position.doubt
    return "" if position.able else position.gate


def some(labels: Sequence[str]) -> list[str]:
    """Return the first labels, and how many more there are."""
    if len(labels) <= NAMED:
        return list(labels)
    return [*labels[: NAMED - 1], f"{len(labels) - NAMED + 1} more"]


def specs_of(rules: Contest) -> list[ColumnSpec]:
    """Return the measures of protection as columns, that of the ranking first."""
    return [rules.protection.spec, *(further.protection.spec for further in rules.secondary_measures)]


def _amount(rules: Contest, values: Values, label: str, key: str = "worst") -> str:
    number = values.get(label, {}).get(key, Value()).value
    return "" if number is None else rules.words.amount(number)

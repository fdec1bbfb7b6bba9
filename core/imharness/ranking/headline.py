"""The headline of a ranking, in at most 20 words and with its numbers: the only sentence that says who wins.

The first of these rules that holds decides what it says:

1. Nobody may win.
2. There is a winner.
3. Measures disagree.
4. A control is shown to be better than the first, which is the candidate that is ahead.
5. No defense itself is incomplete, so that nothing is compared with it.
6. The first, or else another candidate, is shown to be better than no defense.
7. All candidates are shown to be worse than no defense.
8. No candidate is shown to be better; the headline says by how much any of them could be better at most.

Most sentences have several forms, the longest first; the first form that is short enough is taken. Each entry has a
headline of its own. Where a table has no ranking, the headline of a row says its position in the table.

In this file `values` is label -> column -> value of the ranking's table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.documents.entries import NOT_JUDGED
from imharness.documents.rankings import Kept, Outcome, Place
from imharness.documents.tables import ColumnSpec, Table, Value, joined, several, too_few
from imharness.ranking.rules import Contest, Words
from imharness.ranking.standing import Disagreement, Standing

LONGEST = 20
"""The most words of a headline; words are what spaces separate, so a label may count as several."""
NAMED = 2
"""The most entries that a headline names; of more, it names the first and says how many more there are."""
Values = Mapping[str, Mapping[str, Value]]
BARS: Mapping[str, tuple[str, str]] = {
    "incomplete": ("is incomplete", "are incomplete"),
    "flagged": ("is flagged", "are flagged"),
    NOT_JUDGED: ("is not judged yet", "are not judged yet"),
    "fails": ("costs too much", "cost too much"),
    "doubtful": ("costs too much if tested alone", "cost too much if tested alone"),
    "not measured": ("was not measured on all that has to be kept", "were not measured on all that has to be kept"),
}
"""What bars entries from winning -> how that is said of one entry and of several."""


def headline_of(
    rules: Contest, entry: str, standing: Standing, places: Mapping[str, Place], values: Values
) -> tuple[Outcome, str]:
    """Return the kind of the headline and its text; see the module. `entry`: what a row is, such as "defense"."""
    first = standing.first
    if first is None:
        return "nobody", rules.void or _nobody(rules, entry, places, values)
    if standing.winner is not None:
        return "winner", _winning(rules, first, places[rules.scores.entries[first]], values)
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
    """Return the headline of the entry at position `i`, and then a sentence on what it costs if that bars it.

    `position`: what the ranking states about the entry.
    """
    label, plain = rules.scores.entries[i], rules.compared_with
    if not position.complete:
        return (f"{label} {withheld(rules, label, values)}.",)
    if position.flags:
        return (_about(rules, label, f"{BARS[position.doubt][0]}, and its number is only an upper bound: ", values),)
    cost = _cost(rules, label, position, values)
    if i == standing.winner:
        return (_winning(rules, i, position, values), *cost)
    if _only_seems(position) and (seeming := _seeming(rules, label, values)):
        return (seeming, *cost)
    if position.against is None:
        return (_about(rules, label, "has ", values), *cost)
    verdicts = {"better": "is better than", "worse": "is worse than", "undecided": "is not separated from"}
    verdict = "is not compared with" if position.against.low is None else verdicts[position.against.verdict]
    return (_about(rules, label, f"{verdict} {plain}: ", values), *cost)


def headline_of_row(table: Table, label: str) -> str:
    """Return the headline of a row in a table without a ranking: its number, and that of the first other row.

    "" where the row has no number in the column by which the table is ranked.
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
    """Say how far an entry lies above or below the threshold of a gate, with the interval; for measured entries."""
    assert measure.value is not None
    assert measure.low is not None
    assert measure.high is not None
    low, high = measure.low, measure.high
    ends = sorted((low, high) if measure.value >= 0 else (-low, -high))
    amount, *between = (f"{x:.{measure.decimals}f}" for x in (abs(measure.value), *ends))
    side = "below" if measure.value < 0 else "above"
    return f"{measure.label} is {amount} [{', '.join(between)}] {side} the threshold ({measure.least})"


def _about(rules: Contest, label: str, what: str, values: Values) -> str:
    """Return a sentence on an entry that ends with its number and that of no defense."""
    return _fitting(*(f"{label} {what}{_against_plain(rules, label, values, brief=brief)}." for brief in (False, True)))


def _only_seems(position: Place) -> bool:
    """Say whether an entry protects only against attackers who do not know it.

    Against these it is shown to be better than no defense. The worst attack is shown to leave less than half of that
    advantage, or the entry is not shown to be better than no defense under the worst attack.
    """
    weakness, against = position.broken, position.against
    if weakness is None or weakness.seems.low is None or weakness.seems.low <= 0:
        return False
    return bool(weakness.attack) or (against is not None and against.verdict != "better")


def _seeming(rules: Contest, label: str, values: Values) -> str:
    """Say that an entry only seems to protect, with its numbers without and under the worst attack.

    "" where one of the numbers is not known.
    """
    words, plain = rules.words, rules.compared_with
    unaware, plain_unaware = (_amount(rules, values, name, "unaware") for name in (label, plain))
    worst, plain_worst = (_amount(rules, values, name, "worst") for name in (label, plain))
    if not all((unaware, plain_unaware, worst, plain_worst)):
        return ""
    seems = f"{label} looks strong: {unaware} {words.of}, {plain_unaware} {words.briefly}"
    return _fitting(
        f"{seems}; under the worst attack {worst}, {plain_worst} {words.briefly}.",
        f"{seems}; worst attack {worst}, {plain_worst} {words.briefly}.",
        f"{seems}; worst attack {worst}.",
    )


def _cost(rules: Contest, label: str, position: Place, values: Values) -> tuple[str, ...]:
    """Return a sentence on the gate that bars an entry, with the numbers; nothing where no gate bars it."""
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
    """Say by how much any candidate could be better than no defense. `most`: the largest upper end of all intervals."""
    words, plain = rules.words, values.get(rules.compared_with, {}).get("worst", Value()).value
    most, limits = max(0.0, most), rules.protection.spec.limits
    if plain is not None and limits is not None:  # no entry can go beyond the limits of the measure
        most = min(most, limits[1] - plain if rules.sign > 0 else plain - limits[0])

    def form(without: str) -> str:
        limit = words.limit.format(
            bound=_rounded_up(words, most),  # without a unit: the unit follows in the words
            plain=_amount(rules, values, rules.compared_with),
            of=words.of,
            without=without,
        )
        return f"No {entry} that may win {limit.rstrip()}."

    return _fitting(form(words.without), form("" if words.limit.endswith("{without}") else words.without))


def _rounded_up(words: Words, number: float) -> str:
    """Return an amount without its unit, rounded up: a bound that is rounded down does not hold."""
    text = _figure(words, number)
    scale = float(_figure(words, 1.0))  # what the amount of 1 is written as: 100 where amounts are in %
    if float(text) >= scale * number * (1 - 1e-9):
        return text
    last_digit = 10.0 ** -len(text.partition(".")[2]) / scale
    return _figure(words, number + last_digit / 2)


def _figure(words: Words, number: float) -> str:
    """Return an amount without its unit: "57" of "57 %"."""
    return words.amount(number).partition(" ")[0]


def _better_control(standing: Standing, first: int) -> int | None:
    """Return the rival that is shown to be better than the first, by the intervals of all pairs; None without one.

    Of several, the one that is the farthest ahead.
    """
    pairs = standing.pairs[0]
    ahead = [i for i in standing.rivals if pairs.better[i, first] and i != standing.undefended]
    return max(ahead, key=lambda i: (pairs.value[i, first], -i), default=None)


def _below(
    rules: Contest, entry: str, standing: Standing, places: Mapping[str, Place], values: Values, rival: int
) -> str:
    """Say that a control, `rival`, is shown to be better than all candidates, or than the first alone."""
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


def _winning(rules: Contest, i: int, position: Place, values: Values) -> str:
    """Say that entry i wins, and which secondary measures could not deny that because it lacks their numbers."""
    label = rules.scores.entries[i]
    long, short = (
        f"{label} {rules.words.lead}: {_against_plain(rules, label, values, brief=brief)}" for brief in (False, True)
    )
    if not position.lacks:
        return f"{long}."
    lacking = not_measured(position.lacks)
    alone = f"{label} {rules.words.lead}: {_amount(rules, values, label)} {rules.words.of}"
    return _fitting(f"{long}; {lacking}.", f"{short}; {lacking}.", f"{alone}; {lacking}.")


def not_measured(lacks: Mapping[str, float]) -> str:
    """Say which secondary measures an entry lacks. `lacks`: as `Place.lacks`, not empty."""
    missing = [measure for measure, share in lacks.items() if not share]
    partial = [f"{measure} measured on {min(100 * share, 99):.0f} %" for measure, share in lacks.items() if share]
    return ", ".join([*([f"not measured: {joined(missing)}"] if missing else []), *partial])


def _behind_undecided(rules: Contest, i: int, first: int, values: Values) -> str:
    """Say that entry i is better than no defense, while the first, which is ahead, is not shown to be."""
    label, plain = rules.scores.entries[i], rules.compared_with
    rest = f"{rules.scores.entries[first]} leads, but is undecided."
    return _fitting(
        f"No winner. {label} is better than {plain}: {_against_plain(rules, label, values)}; {rest}",
        f"No winner. {label} beats {plain}: {_against_plain(rules, label, values, brief=True)}; {rest}",
        f"{label} beats {plain}: {_against_plain(rules, label, values, brief=True)}; {rest}",
    )


def _incomparable(rules: Contest, first: int, values: Values) -> str:
    """Say that no defense was not measured on everything, so that nobody is shown to be better than it."""
    label, plain = rules.scores.entries[first], rules.compared_with
    lead = f"{label} leads with {_amount(rules, values, label)} {rules.words.of}."
    return _fitting(
        f"No winner: {plain} is incomplete, and nothing is compared with it. {lead}",
        f"No winner: {plain} is incomplete. {lead}",
    )


def _against_plain(rules: Contest, label: str, values: Values, *, brief: bool = False) -> str:
    """Return the number of an entry and that of no defense, as "57 % of guesses right, 90 % without a defense"."""
    plain, words = _amount(rules, values, rules.compared_with), rules.words
    without = words.briefly if brief else words.without
    return f"{_amount(rules, values, label)} {words.of}" + (f", {plain} {without}" if plain else "")


def _leader(rules: Contest, standing: Standing, first: int, values: Values) -> str:
    """Say that the first leads, and from which entries it is not separated.

    Of few units, question A can show it to be better than no defense, and question B, which decides who wins, not.
    """
    beaten = {standing.undefended} if standing.better_than_none(first) else set()
    label = rules.scores.entries[first]
    near = [rules.scores.entries[i] for i in standing.not_behind if i not in beaten]
    whole, brief = (
        f"{label} leads with {_against_plain(rules, label, values, brief=short)}" for short in (False, True)
    )
    spec, names = rules.protection.spec, joined(some(near))
    if not near and standing.not_behind:
        more = f"a win needs more {spec.cluster_unit or spec.unit or 'unit'}s"
        return _fitting(f"No winner. {whole}; {more}.", f"No winner. {brief}; {more}.", f"{brief}; {more}.")
    if not near:
        return _fitting(f"No winner. {whole}.", f"No winner. {brief}.", f"{brief}.")
    units = max((int(standing.pairs[0].units[first, i]) for i in standing.not_behind), default=0)
    counted = several(units, spec.cluster_unit or spec.unit or "unit")
    equal = [rules.scores.entries[i] for i in standing.equal_to_first]
    if near == equal:
        alike = f"{names} {'equals' if len(equal) == 1 else 'equal'} it on all {counted}"
        return _fitting(f"No winner. {whole}; {alike}.", f"No winner. {brief}; {alike}.", f"{brief}; {alike}.")
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
    """Say that all candidates are worse than no defense."""
    label = rules.scores.entries[first]
    long, short = (_against_plain(rules, label, values, brief=brief) for brief in (False, True))
    start = f"Every {entry} that may win does worse: at best"
    return _fitting(f"{start} {long}.", f"{start} {short}.")


def _few(rules: Contest, standing: Standing, first: int) -> str:
    """Say that the units are too few."""
    assert standing.against is not None
    spec = rules.protection.spec
    return too_few(int(standing.against.units[first]), spec.cluster_unit or spec.unit or "unit")


def _nobody(rules: Contest, entry: str, places: Mapping[str, Place], values: Values) -> str:
    """Say that no entry may win, and how many are barred for which reason."""
    barred_by_gates_alone = [
        label for label, position in places.items() if position.complete and not position.control and not position.flags
    ]
    plain = values.get(rules.undefended, {}).get("utility", Value())
    not_measured = all(places[label].gate == "not measured" for label in barred_by_gates_alone)
    if barred_by_gates_alone and plain.missing and not_measured:
        undefined = f"No {entry} may win: {rules.utility.spec.label} without a defense is not defined"
        return _fitting(f"{undefined} ({plain.missing}).", f"{undefined}.")
    bars = barred(places)
    if not bars:
        return f"No {entry} was measured beside the controls."
    reasons = [f"{len(labels)} {BARS[why][len(labels) > 1]}" for why, labels in bars.items()]
    counts = [len(labels) for labels in bars.values()]
    # The first form names all reasons; each further form names one reason fewer and counts the rest together.
    forms = [f"No {entry} may win: {'; '.join(reasons)}."]
    for named in range(len(reasons) - 1, 0, -1):
        rest = f"{sum(counts[named:])} for other reasons"
        forms.append(f"No {entry} may win: {'; '.join([*reasons[:named], rest])}.")
    return _fitting(*forms)


def barred(places: Mapping[str, Place]) -> dict[str, list[str]]:
    """Return what bars entries, a key of `BARS` -> the labels of these; the reason that bars most comes first.

    Controls are left out.
    """
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
    """Return the labels that a headline names, and at the end how many more there are, if any."""
    if len(labels) <= NAMED:
        return list(labels)
    return [*labels[: NAMED - 1], f"{len(labels) - NAMED + 1} more"]


def specs_of(rules: Contest) -> list[ColumnSpec]:
    """Return the measures of protection as columns; the measure of the ranking comes first."""
    return [rules.protection.spec, *(further.protection.spec for further in rules.secondary_measures)]


def _amount(rules: Contest, values: Values, label: str, key: str = "worst") -> str:
    """Return a number of an entry in the words of the measure; "" where there is none."""
    number = values.get(label, {}).get(key, Value()).value
    return "" if number is None else rules.words.amount(number)

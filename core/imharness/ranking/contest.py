"""Who wins: the worst case over everything tried, beside what it costs, with intervals of ranks.

Of every unit the worst outcome over all attacks counts. Entries are compared on the settings that they share, units are
resampled by what they come from, controls and incomplete entries take part but never win, and an entry that is not
shown to be better than the controls does not win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.ranking.claim import claim_of
from imharness.ranking.ranking import compared, ranked
from imharness.ranking.rules import Contest, Floats, number
from imharness.ranking.tables import mean_value, missing
from imharness.results.blocks import Blocks
from imharness.results.rankings import Place, Ranking
from imharness.results.report import TrackReport
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import Differences
from imharness.statistics.ranks import front

UNRANKED = "not complete: it lacks an attack or a unit that others met"
UNAWARE, AWARE = "attacker does not know the defense", "attacker knows the defense"


def contest(rules: Contest, *, id: str, title: str, caption: str, entry: str, note: str = "") -> TrackReport:
    """Return the ranking, its table, and the comparison behind it."""
    entries = rules.scores.entries
    coverage = [rules.coverage(i) for i in range(len(entries))]
    own = rules.worst
    complete = [i for i, share in enumerate(coverage) if share == 1.0 and not np.isnan(own[i]).all()]
    behind = replace(rules.protection, key="worst", of=rules.protection.of or rules.protection.key)
    paired = compared(
        rules.scores.part(rules.settings),
        behind,
        table=id,
        entry=entry,
        over=rules.over,
        balanced=rules.balanced,
        incomplete=[label for i, label in enumerate(entries) if i not in complete],
    )
    told = paired.told
    values = [_values(rules, i, coverage[i], own[i]) for i in range(len(entries))]
    for i, found in enumerate(values):
        found["rank"], found["behind"] = _place(told, i, complete), _behind(told, i, complete)
    gate, worth = _gate(rules, values)
    worst = np.array([number(found["worst"]) if i in complete else np.nan for i, found in enumerate(values)])
    ahead = front(worst * rules.sign, worth)
    places = {
        label: Place(
            control=rules.controls.get(label, ""),
            complete=i in complete,
            front=bool(ahead[i]),
            passes=False if label in rules.below else None if np.isnan(gate + worth[i]) else bool(worth[i] >= gate),
            broken_by=rules.broken_by(i),
            flags=rules.flags.get(label, ()),
            needed=_needed(told, i, complete),
        )
        for i, label in enumerate(entries)
    }
    specs = _specs(rules)
    rows = [Row(label=label, values=found) for label, found in zip(entries, values, strict=True)]
    table = Table(
        id=id,
        title=title,
        caption=caption,
        entry=entry,
        columns=specs,
        rows=tuple(ranked(rows, *specs[:2])),
        ranked_by="rank",
        note=note,
    )
    winner, claim = claim_of(rules, told, complete, places, {row.label: row.values for row in table.rows})
    ranking = Ranking(
        table=id,
        comparison=paired.id,
        over=rules.over,
        attack=rules.attack,
        attacker=rules.attacker,
        unaware=rules.unaware,
        balanced=rules.balanced,
        all_controls=rules.all_controls,
        undefended=rules.undefended,
        gate=None if np.isnan(gate) else _way(rules) * gate,
        share=rules.share,
        places=places,
        winner=winner,
        claim=claim,
        proxies=rules.proxies,
    )
    return TrackReport([table], [paired], rankings=[ranking])


def _values(rules: Contest, i: int, coverage: float, own: Floats) -> dict[str, Value]:
    label = rules.scores.entries[i]
    nothing = missing(rules.unknown[label]) if label in rules.unknown else None
    return {
        "worst": nothing or rules.mean(rules.sign * own),
        "unaware": nothing or _against(rules, i, aware=False),
        "aware": nothing or _against(rules, i, aware=True),
        "utility": missing("not measured") if rules.utility.value is None else rules.utility.value(label),
        "coverage": Value(value=100 * coverage),
    }


def _against(rules: Contest, row: int, *, aware: bool) -> Value:
    """Return the mean over the attacks that know the defense, or over those that do not."""
    if rules.chosen is not None:
        return _of_kind(rules, rules.chosen.kinds, row, aware)
    numbers = rules.sign * rules.against[aware][row]
    return missing("no such attack on it") if np.isnan(numbers).all() else rules.mean(numbers)


def _of_kind(rules: Contest, kinds: Blocks, row: int, aware: bool) -> Value:
    """Return the same of the strongest attack of each attacker."""
    chosen = [c for c, own in enumerate(kinds.conditions) if (own[rules.attacker] != rules.unaware) == aware]
    cluster, measure = rules.protection.cluster, rules.protection.of or rules.protection.key
    numbers, clusters = kinds.once_by(cluster, measure, rules.scores.entries[row], chosen)
    return mean_value(numbers, clusters if cluster else None) if len(numbers) else missing("no such attack on it")


def _place(told: Differences, i: int, complete: Sequence[int]) -> Value:
    if i not in complete:
        return missing(UNRANKED)
    best, worst = told.places(i)
    enough = told.units[i].max(initial=0) >= FEWEST
    return Value(value=told.place(i), **({"low": best, "high": worst} if enough else {}))


def _leader(told: Differences, i: int) -> int | None:
    """Return the other entry that is the furthest ahead of one; None where none is ahead, or nothing was measured."""
    if not told.value.size:
        return None
    ahead = np.nan_to_num(told.value[:, i], nan=-np.inf)
    return int(ahead.argmax()) if ahead.max(initial=0.0) > 0 else None


def _behind(told: Differences, i: int, complete: Sequence[int]) -> Value:
    leader = _leader(told, i)
    if i not in complete or leader is None:
        return missing("none is ahead" if i in complete else UNRANKED)
    low, high = told.low[leader, i], told.high[leader, i]
    return Value(value=float(told.value[leader, i]), **({} if np.isnan(low) else {"low": low, "high": high}))


def _needed(told: Differences, i: int, complete: Sequence[int]) -> int | None:
    """Return how many units would show the best other entry to be better, if these do not; None if they do."""
    leader = _leader(told, i)
    return None if leader is None or told.better[leader, i] else told.needed(leader, i)


def _way(rules: Contest) -> int:
    return -1 if rules.utility.better == "lower" else 1


def _gate(rules: Contest, values: Sequence[Mapping[str, Value]]) -> tuple[float, Floats]:
    """Return the least utility that passes and that of each entry, more is better; NaN where it is not known."""
    worth = np.array([_way(rules) * number(own["utility"]) for own in values])
    plain = dict(zip(rules.scores.entries, worth, strict=True)).get(rules.undefended, np.nan)
    return float(plain - rules.share * abs(plain)), worth


def _specs(rules: Contest) -> tuple[ColumnSpec, ...]:
    own, utility = rules.protection.spec, rules.utility.spec
    named = own.cluster_unit or own.unit or "unit"
    one = rules.chosen is not None
    counts = "The strongest attack on each entry counts." if one else "The worst of all attacks counts for each unit."
    those, ending = ("The strongest attack", "s") if one else ("Mean over attacks", "")

    def of(key: str, label: str, text: str, **changes: object) -> ColumnSpec:
        return own.model_copy(update={"key": key, "label": label, "description": text, **changes})

    return (
        ColumnSpec(
            key="rank",
            label="rank",
            better="lower",
            decimals=0,
            description="One plus the number of complete entries that are ahead, each by the mean difference over what "
            "both have; its 95% interval by "
            f"simultaneous intervals of the differences between all entries, over {named}s.",
        ),
        of("worst", f"{own.label}, worst attack", f"{own.description} {counts}"),
        of("unaware", f"{own.label}, {UNAWARE}", f"{own.description} {those} without knowledge of the defense."),
        of("aware", f"{own.label}, {AWARE}", f"{own.description} {those} that know{ending} the defense."),
        utility.model_copy(update={"key": "utility"}),
        of(
            "behind",
            "behind",
            f"{own.label} lost to the best other entry, with its simultaneous interval.",
            better="lower",
        ),
        ColumnSpec(
            key="coverage",
            label="coverage",
            decimals=0,
            better="higher",
            description="Share of units and settings that an entry met, %. Only entries that met all of them "
            "can win; the others are ranked on what they have.",
        ),
    )

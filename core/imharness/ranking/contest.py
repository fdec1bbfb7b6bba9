"""Who wins: the worst case over everything tried, beside what it costs, with intervals of ranks.

Of every unit the worst outcome over all attacks counts. Entries are compared on the settings that they share, units are
resampled by what they come from, controls and incomplete entries are measured but have no place and never win, and an
entry that is not shown to be better than the controls does not win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.ranking.claim import claim_of
from imharness.ranking.evidence import HANDED_IN
from imharness.ranking.findings import findings_of
from imharness.ranking.gates import kept, state_of
from imharness.ranking.known import broken, moved
from imharness.ranking.order import in_order
from imharness.ranking.ranking import Column, compared
from imharness.ranking.rules import Contest, Floats, number
from imharness.ranking.standing import aligned, standing_of
from imharness.ranking.tables import missing
from imharness.results.blocks import Blocks
from imharness.results.rankings import Place, Ranking
from imharness.results.report import PairedScores, TrackReport
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import Differences
from imharness.statistics.means import tail_for
from imharness.statistics.ranks import front

UNRANKED = "not complete: it lacks an attack or a unit that others met"
LINE = "controls have no place"
UNAWARE, AWARE = "attacker does not know the defense", "attacker knows the defense"


def contest(rules: Contest, *, id: str, title: str, caption: str, entry: str, note: str = "") -> TrackReport:
    """Return the ranking, its table, and the comparison behind it."""
    rules = rules.on_common_units()
    entries = rules.scores.entries
    coverage = [rules.coverage(i) for i in range(len(entries))]
    own = rules.worst
    complete = [i for i, share in enumerate(coverage) if share == 1.0 and not np.isnan(own[i]).all()]
    lacking = [label for i, label in enumerate(entries) if i not in complete]
    paired = _paired(rules, rules.scores.part(rules.settings), rules.protection, "worst", id, entry, lacking)
    others = [
        _paired(rules, own.scores, own.protection, own.protection.key, "", entry, lacking) for own in rules.yardsticks
    ]
    told = [aligned(own.told, own.entries, entries) for own in (paired, *others)]
    values = [_values(rules, i, coverage[i], own[i]) for i in range(len(entries))]
    contenders = [i for i in complete if entries[i] not in rules.controls]
    for i, found in enumerate(values):
        found["rank"] = _place(told[0], i, contenders) if i in contenders or i not in complete else missing(LINE)
        found["behind"] = _behind(told[0], i, contenders) if i in complete else missing(UNRANKED)
    gate, worth = _gate(rules, values)
    worst = np.array([number(found["worst"]) if i in complete else np.nan for i, found in enumerate(values)])
    ahead = front(worst * rules.sign, worth)
    answers = kept(rules.gates, entries, rules.undefended)
    steps, breaks = moved(rules, contenders), broken(rules, contenders)
    places = {
        label: Place(
            control=rules.controls.get(label, ""),
            complete=i in complete,
            front=bool(ahead[i]),
            gate=state_of(answers[label]),
            kept=answers[label],
            broken_by=rules.broken_by(i),
            flags=rules.flags.get(label, ()),
            needed=_needed(told[0], i, contenders),
            moved=steps.get(i),
            broken=breaks.get(i),
        )
        for i, label in enumerate(entries)
    }
    standing = standing_of(entries, places, told, rules.references)
    specs = _specs(rules)
    rows = [Row(label=label, values=found) for label, found in zip(entries, values, strict=True)]
    table = Table(
        id=id,
        title=title,
        caption=caption,
        entry=entry,
        columns=specs,
        rows=in_order(rows, places, *specs[:2]),
        ranked_by="rank",
        note=" ".join(filter(None, (note, _tried_further(places)))),
    )
    shown = {row.label: row.values for row in table.rows}
    ranking = Ranking(
        table=id,
        comparison=paired.id,
        over=rules.over,
        attack=rules.attack,
        attacker=rules.attacker,
        unaware=rules.unaware,
        balanced=rules.balanced,
        alike=rules.same,
        yardsticks=tuple(own.id for own in (paired, *others)),
        control_tails=tuple(own.tail for own in standing.against_controls),
        silent=_silent(rules),
        chosen=rules.chosen is not None,
        broken_tail=tail_for(2 * len(contenders)),
        references=tuple(sorted(rules.references & set(entries))),
        undefended=rules.undefended,
        gate=None if np.isnan(gate) else _way(rules) * gate,
        share=rules.share,
        places=places,
        may_be_best=tuple(entries[i] for i in standing.may_be_best),
        winner="" if standing.winner is None else entries[standing.winner],
        claim=claim_of(rules, standing, complete, places, shown),
        findings=findings_of(rules, standing, places, shown),
        proxies=rules.proxies,
    )
    return TrackReport([table], [paired, *others], rankings=[ranking])


def _silent(rules: Contest) -> dict[str, tuple[int, ...]]:
    if not rules.met or not rules.settings:
        return {}
    none = np.concatenate([rules.known[c] & np.isnan(rules.gains[c]) for c in rules.settings], axis=1)
    rows = zip(rules.scores.entries, none, strict=True)
    return {label: tuple(np.flatnonzero(own).tolist()) for label, own in rows if own.any()}


def _paired(
    rules: Contest, scores: Blocks, protection: Column, key: str, table: str, entry: str, incomplete: Sequence[str]
) -> PairedScores:
    """Return the comparison of entries by a measure; incomplete ones are compared with none."""
    return compared(
        scores,
        replace(protection, key=key, of=protection.of or protection.key),
        table=table,
        entry=entry,
        over=rules.over,
        balanced=rules.balanced,
        incomplete=[label for label in incomplete if label in scores.entries],
    )


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
    """Return the mean over the attacks that know the defense, or over those that do not, of those run both ways."""
    numbers = rules.sign * rules.against[aware][row]
    return missing("no attack was run both ways") if np.isnan(numbers).all() else rules.mean(numbers)


def _place(told: Differences, i: int, contenders: Sequence[int]) -> Value:
    """Return the place of an entry among complete entries that are not controls."""
    if i not in contenders:
        return missing(UNRANKED)
    best, worst = told.places(i, contenders)
    enough = told.units[i].max(initial=0) >= FEWEST
    return Value(value=told.place(i, contenders), **({"low": best, "high": worst} if enough else {}))


def _leader(told: Differences, i: int, contenders: Sequence[int]) -> int | None:
    """Return the contender that is the furthest ahead of an entry; None where none is, or nothing was measured."""
    ahead = np.nan_to_num(told.value[list(contenders), i], nan=-np.inf)
    return contenders[int(ahead.argmax())] if ahead.max(initial=0.0) > 0 else None


def _behind(told: Differences, i: int, contenders: Sequence[int]) -> Value:
    leader = _leader(told, i, contenders)
    if leader is None:
        return missing("no entry is ahead")
    low, high = told.low[leader, i], told.high[leader, i]
    return Value(value=float(told.value[leader, i]), **({} if np.isnan(low) else {"low": low, "high": high}))


def _needed(told: Differences, i: int, contenders: Sequence[int]) -> int | None:
    """Return how many units would show the best other entry to be better, if these do not; None if they do."""
    leader = _leader(told, i, contenders)
    return None if leader is None or told.better[leader, i] else told.needed(leader, i)


def _tried_further(places: Mapping[str, Place]) -> str:
    """Say what the numbers of entries mean against which evidence counts; empty where there is none."""
    broken = [label for label, place in places.items() if HANDED_IN in place.broken_by]
    if not broken:
        return ""
    return (
        f"Evidence counts against {', '.join(broken)}: on the images that were handed in, the number has the worst "
        "that anybody tried. These were chosen because they break the entry; other images and other entries were not "
        "tried in this way, and the interval does not know of that. So the number is a bound, since the same attack "
        "may do more on other images, and a better entry is one that withstood what was tried on it, which was less."
    )


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
    those = "The strongest attack" if one else "Mean over the attacks that were run both ways"

    def of(key: str, label: str, text: str, **changes: object) -> ColumnSpec:
        return own.model_copy(update={"key": key, "label": label, "description": text, **changes})

    return (
        ColumnSpec(
            key="rank",
            label="rank",
            better="lower",
            decimals=0,
            description="One plus the number of complete entries that are ahead, each by the mean difference over what "
            "both have; controls count nothing and have no place. Its 95% interval is by "
            f"simultaneous intervals of the differences between all entries, over {named}s.",
        ),
        of("worst", f"{own.label}, worst attack", f"{own.description} {counts}"),
        of("unaware", f"{own.label}, {UNAWARE}", f"{own.description} {those}, without knowledge of the defense."),
        of("aware", f"{own.label}, {AWARE}", f"{own.description} {those}, with knowledge of the defense."),
        utility.model_copy(update={"key": "utility"}),
        of(
            "behind",
            "behind",
            f"{own.label} lost to the best other entry, controls apart, with its simultaneous interval.",
            better="lower",
            limits=None,
        ),
        ColumnSpec(
            key="coverage",
            label="coverage",
            decimals=0,
            better="higher",
            description="Share of units and settings that an entry met, %. Only entries that met all of them "
            "can win; the others have no place.",
        ),
    )

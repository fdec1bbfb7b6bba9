"""Who wins: ranks entries by their protection under the worst attack, shows what each costs, and gives intervals.

Of every unit the worst outcome over all attacks counts. Entries are compared on the settings that they share, and whole
clusters of units are resampled, such as all images of a photograph. Controls, and entries that cannot win, are measured
but have no rank. Three questions are answered, see `imharness.ranking.standing`.

In this file an entry is named by its position i in ``rules.scores.entries``; "plain" is the entry without a defense.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from imharness.documents.pairwise import Advantage, advantage, by_unit
from imharness.documents.rankings import Against, Place, Ranking, turned
from imharness.documents.report import PairedScores, TrackReport
from imharness.documents.tables import Row, Table, Value, joined
from imharness.ranking.adaptive import broken, moved
from imharness.ranking.columns import columns_of
from imharness.ranking.evidence import EVIDENCE_ATTACK
from imharness.ranking.findings import findings_of
from imharness.ranking.gates import kept, state_of
from imharness.ranking.headline import BARS, bar_of, headline_of, headline_of_entry, not_measured
from imharness.ranking.order import in_order
from imharness.ranking.ranking import Column, compared
from imharness.ranking.rules import Contest, Floats, SecondaryMeasure, number
from imharness.ranking.standing import Standing, aligned, candidates_of
from imharness.ranking.tables import missing
from imharness.results.blocks import Blocks
from imharness.statistics.against_one import BETTER, WORSE, against_one, best_alpha
from imharness.statistics.bootstrap import LEVEL
from imharness.statistics.clusters import FEWEST, gaps_greater
from imharness.statistics.differences import Differences, Intervals, moments
from imharness.statistics.means import alpha_for
from imharness.statistics.ranks import front
from imharness.statistics.wilcoxon import adjust, resolution

UNRANKED = "not complete: it lacks an attack or a unit that others met"
LINE = "controls have no rank"


def contest(rules: Contest, *, id: str, title: str, caption: str, entry: str, note: str = "") -> TrackReport:
    """Return the ranking, its table, and the comparisons behind it, of all that a track hands in as `rules`.

    `id`, `title`, `caption`, `note`: of the table. `entry`: what a row is, such as "defense".
    """
    rules = rules.on_common_units()
    entries = rules.scores.entries
    worst = rules.worst
    coverage = [rules.coverage(i) for i in range(len(entries))]
    complete = [i for i, share in enumerate(coverage) if share == 1.0 and not np.isnan(worst[i]).all()]
    incomplete_labels = [label for i, label in enumerate(entries) if i not in complete]
    contenders = [i for i in complete if entries[i] not in rules.controls]

    # Comparisons by the measure of the ranking and by each secondary measure. A secondary measure by which these data
    # could not show anything decides nothing.
    paired = _paired(
        rules, rules.scores.subset(rules.settings), rules.protection, "worst", id, entry, incomplete_labels
    )
    secondary = [
        _paired(rules, measure.scores, measure.protection, measure.protection.key, "", entry, incomplete_labels)
        for measure in rules.secondary_measures
    ]
    can_decide = [
        _can_separate(rules, measure, comparison)
        for measure, comparison in zip(rules.secondary_measures, secondary, strict=True)
    ]
    deciding = [paired, *itertools.compress(secondary, can_decide)]
    undeciding_labels = [
        measure.protection.label for measure, can in zip(rules.secondary_measures, can_decide, strict=True) if not can
    ]
    rules = replace(rules, secondary_measures=[*itertools.compress(rules.secondary_measures, can_decide)])
    pairs = [aligned(comparison.differences, comparison.entries, entries) for comparison in deciding]

    # The Pareto front of protection and utility. A lead that is no larger than rounding counts as none.
    values = [_values(rules, i, coverage[i], worst[i]) for i in range(len(entries))]
    least_utility, utilities = _gate(rules, values)
    protections = np.array([number(cells["worst"]) if i in complete else np.nan for i, cells in enumerate(values)])
    leads, rounding = pairs[0].value, resolution(paired.numbers).max(initial=0.0)
    leads = np.where(np.abs(leads) > rounding, leads, 0.0 * leads)  # 0 times NaN is NaN
    on_front = front(protections * rules.sign, utilities, leads)

    # What the ranking states about each entry: first what follows from the entry alone, then what from comparisons.
    answers = kept(rules.gates, entries, rules.undefended)
    lacking = {measure.protection.label: rules.lacking(measure) for measure in rules.secondary_measures}
    changes_by_knowledge, breaks = moved(rules, contenders), broken(rules, contenders)
    places = {
        label: Place(
            control=rules.controls.get(label, ""),
            complete=i in complete,
            front=bool(on_front[i]),
            gate=state_of(answers[label]),
            gate_numbers=answers[label],
            broken_by=rules.broken_by(i),
            lacks={m: shares[label] for m, shares in lacking.items() if label in shares} if i in contenders else {},
            flags=rules.flags.get(label, ()),
            moved=changes_by_knowledge.get(i),
            broken=breaks.get(i),
        )
        for i, label in enumerate(entries)
    }
    standing = _standing(rules, paired, pairs, places, contenders)
    tests = _wilcoxon(standing, contenders)
    for i, label in enumerate(entries):
        compared_facts = {
            "needed": _needed(pairs[0], i, standing.candidates),
            "against": _against_none(standing, tests, i),
        }
        places[label] = places[label].model_copy(update=compared_facts)
        values[i] |= _placed(rules, standing, places[label], i)

    # The table.
    specs = columns_of(rules)
    unsorted = [Row(label=label, values=cells) for label, cells in zip(entries, values, strict=True)]
    rows = in_order(unsorted, places, *specs[:2])
    notes = (
        note,
        turned(rows, specs[1]),
        _tried_further(places),
        _decides_nothing(rules, undeciding_labels),
        _not_measured(places),
    )
    table = Table(
        id=id,
        title=title,
        caption=caption,
        entry=entry,
        columns=specs,
        rows=rows,
        ranked_by="rank",
        note=" ".join(filter(None, notes)),
    )

    # The headlines of the ranking and of each entry, which need the values of the table.
    row_values = {row.label: row.values for row in table.rows}
    outcome, claim = headline_of(rules, entry, standing, places, row_values)
    for i, label in enumerate(entries):
        if not places[label].control:
            headline = headline_of_entry(rules, i, standing, places[label], row_values)
            places[label] = places[label].model_copy(update={"headline": headline})
    ranking = Ranking(
        table=id,
        comparison=paired.id,
        over=rules.over,
        attack=rules.attack,
        attacker=rules.attacker,
        unaware=rules.unaware,
        balanced=rules.balanced,
        alike=rules.same,
        secondary_measures=tuple(comparison.id for comparison in deciding),
        against_alphas=standing.against.alphas if standing.against is not None else (BETTER, WORSE),
        best_alpha=standing.best_alpha,
        matched={control: label for control, label in rules.matched.items() if control in entries},
        silent=_silent(rules),
        nested=rules.nested,
        chosen=rules.chosen is not None,
        broken_alpha=alpha_for(2 * len(contenders)),
        references=tuple(sorted(rules.references & set(entries))),
        undefended=rules.undefended,
        baseline=rules.compared_with,
        baseline_name=rules.baseline_name,
        gate=None if np.isnan(least_utility) else _direction(rules) * least_utility,
        share=rules.share,
        places=places,
        first="" if standing.first is None else entries[standing.first],
        winner="" if standing.winner is None else entries[standing.winner],
        not_behind=tuple(entries[i] for i in standing.not_behind),
        may_be_best=tuple(entries[i] for i in standing.may_be_best),
        outcome=outcome,
        claim=claim,
        void=rules.void,
        findings=findings_of(rules, standing, places, row_values),
        proxies=rules.proxies,
    )
    return TrackReport([table], [paired, *secondary], rankings=[ranking])


def _can_separate(rules: Contest, measure: SecondaryMeasure, paired: PairedScores) -> bool:
    """Say whether a secondary measure could show a perfect entry to be better than no defense with these data.

    A perfect entry has the best possible number on every unit. A measure that could not show it to be better shows
    nothing, whatever an entry does. `paired`: the comparison by this measure.
    """
    limits, better = measure.protection.limits, measure.protection.better
    if limits is None or rules.compared_with not in paired.entries:
        return True
    best_gain = limits[1] if better == "higher" else -limits[0]
    plain = by_unit(*paired.stored())[paired.entries.index(rules.compared_with)]
    value, error, units = moments(best_gain - plain[None])
    intervals = Intervals(value, error, units, paired.differences.alpha, paired.differences.value_range)
    return bool(intervals.above[0])


def _decides_nothing(rules: Contest, labels: Sequence[str]) -> str:
    """Say which secondary measures cannot decide anything with these data; "" where there are none."""
    if not labels:
        return ""
    return (
        f"With these data {joined(labels)} could not show even a perfect entry to beat {rules.compared_with}, "
        "and decides nothing."
    )


def _not_measured(places: Mapping[str, Place]) -> str:
    """Say which entries lack numbers of a measure that could deny them a win; "" where none does."""
    clauses = [f"{label}: {not_measured(standing.lacks)}" for label, standing in places.items() if standing.lacks]
    return f"{'; '.join(clauses)}; what was not measured could not deny a win." if clauses else ""


def _standing(
    rules: Contest,
    paired: PairedScores,
    pairs: Sequence[Differences],
    places: Mapping[str, Place],
    contenders: Sequence[int],
) -> Standing:
    """Return who may win.

    `paired`: the comparison by the measure of the ranking. `pairs`: as in `Standing`. `contenders`: complete entries
    that are not controls.
    """
    entries = rules.scores.entries
    candidates = candidates_of(entries, places)
    plain = entries.index(rules.compared_with) if rules.compared_with in entries else None
    plain_is_incomplete = plain is not None and not places[rules.compared_with].complete
    plain = None if plain_is_incomplete else plain
    rows = [paired.entries.index(label) if label in paired.entries else -1 for label in entries]

    @cache
    def over_each(i: int) -> Advantage:
        """Return the advantage of i over each entry in the contest's order: `paired` lacks those without numbers."""
        over = advantage(*paired.stored(), entries[i])
        return over._replace(
            rows=_in_order(over.rows, rows),
            contributions=_in_order(over.contributions, rows),
            nearest=_in_order(over.nearest[:, None], rows)[:, 0],
        )

    others = [i for i in contenders if i != plain]
    against = None
    if plain is not None and others:
        of_plain = over_each(plain)  # no defense, over each entry
        unit_values = np.full(of_plain.contributions.shape, np.nan)
        unit_values[others] = -of_plain.contributions[others]  # of each entry over no defense
        better, worse = np.zeros((2, len(entries)), dtype=bool)  # than no defense, by the intervals of all pairs
        better[others], worse[others] = pairs[0].better[others, plain], pairs[0].better[plain, others]
        against = against_one(unit_values, pairs[0].value_range, limit=pairs[0].limit, nearest=of_plain.nearest)
        against = against.joined(better, worse)
    alpha = best_alpha(by_unit(*paired.stored())[[rows[i] for i in candidates]]) if candidates else 1 - LEVEL

    def stands_against(control: int, entry: int) -> bool:
        label = entries[control]
        if label in rules.matched:
            return rules.matched[label] == entries[entry] and places[label].able
        return label not in rules.references

    controls = [i for i, label in enumerate(entries) if places[label].control and places[label].complete]
    return Standing(pairs, candidates, controls, plain, against, over_each, stands_against, alpha, plain_is_incomplete)


def _in_order(numbers: Floats, rows: Sequence[int]) -> Floats:
    """Return numbers ``(m, k)`` with their rows in another order ``(len(rows), k)``; -1 stands for a row of NaN."""
    return np.where(np.array(rows)[:, None] >= 0, numbers[rows], np.nan)


def _wilcoxon(standing: Standing, contenders: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return entry -> its p-value of being better than no defense, and the same corrected by Holm.

    Entries that cannot be tested are missing.
    """
    if standing.against is None or standing.undefended is None:
        return {}
    others = [i for i in contenders if i != standing.undefended]
    over = standing.over_each(standing.undefended)
    p = gaps_greater(-over.rows[others], over.clusters, over.nearest[others])
    corrected = adjust(p, "holm")
    return {i: (float(p[at]), float(corrected[at])) for at, i in enumerate(others) if not np.isnan(p[at])}


def _against_none(standing: Standing, tests: Mapping[int, tuple[float, float]], i: int) -> Against | None:
    """Return how entry i compares with no defense; None where it is not compared. `tests`: see `_wilcoxon`."""
    comparison = standing.against
    if comparison is None or np.isnan(comparison.value[i]):
        return None
    better = standing.better_than_none(i)
    low, high = float(comparison.low[i]), float(comparison.high[i])
    ends = {} if np.isnan(low) else {"low": max(low, 0.0) if better else low, "high": high}
    p, corrected = tests.get(i, (None, None))
    return Against(
        value=float(comparison.value[i]),
        units=int(comparison.units[i]),
        needed=comparison.needed(i),
        verdict="better" if better else "worse" if comparison.worse[i] else "undecided",
        p=p,
        p_holm=corrected,
        **ends,
    )


def _placed(rules: Contest, standing: Standing, position: Place, i: int) -> dict[str, Value]:
    """Return the values of an entry's rank, of how far it is behind, and of how it compares with no defense."""
    pairs, candidates = standing.pairs[0], standing.candidates
    why = _unranked(position)
    cells = {
        "rank": missing(why) if why else _rank(pairs, i, candidates, standing.winner),
        "behind": missing(why) if why else _behind(pairs, i, candidates, standing.winner),
    }
    against = position.against
    if against is None:
        nothing = missing(LINE if position.control else f"not compared with {rules.baseline_name}")
        return {**cells, "gain": nothing, "p": nothing}
    sign, ends = rules.sign, dict[str, float]()
    if against.low is not None and against.high is not None:
        low, high = sorted((sign * against.low, sign * against.high))
        ends = {"low": low, "high": high}
    untested = missing("nothing differs, or units are too few")
    cells["gain"] = Value(value=sign * against.value, n=against.units, **ends)
    cells["p"] = untested if against.p_holm is None else Value(value=against.p_holm)
    return cells


def _unranked(position: Place) -> str:
    """Say why an entry has no rank; "" where it has one."""
    if position.control:
        return LINE
    if not position.complete:
        return UNRANKED
    return "" if position.eligible else f"cannot win: it {BARS[bar_of(position)][0]}"


def _silent(rules: Contest) -> dict[str, tuple[int, ...]]:
    """Return entry -> the positions in its scores, ``(total,)``, at which it met an attack that says nothing of it."""
    if not rules.met or not rules.settings:
        return {}
    without_number = np.concatenate([rules.known[c] & np.isnan(rules.gains[c]) for c in rules.settings], axis=1)
    rows = zip(rules.scores.entries, without_number, strict=True)
    return {label: tuple(np.flatnonzero(mask).tolist()) for label, mask in rows if mask.any()}


def _paired(
    rules: Contest, scores: Blocks, protection: Column, key: str, table: str, entry: str, incomplete: Sequence[str]
) -> PairedScores:
    """Return the comparison of entries by a measure; an incomplete entry is compared with no other."""
    return compared(
        scores,
        replace(protection, key=key, of=protection.of or protection.key),
        table=table,
        entry=entry,
        over=rules.over,
        balanced=rules.balanced,
        incomplete=[label for label in incomplete if label in scores.entries],
    )


def _values(rules: Contest, i: int, coverage: float, scores: Floats) -> dict[str, Value]:
    """Return the values of entry i that need no comparison. `scores`: its gains under the worst attack ``(units,)``."""
    label = rules.scores.entries[i]
    nothing = missing(rules.unknown[label]) if label in rules.unknown else None
    return {
        "worst": nothing or rules.mean(rules.sign * scores),
        "unaware": nothing or _against(rules, i, aware=False),
        "aware": nothing or _against(rules, i, aware=True),
        "utility": missing("not measured") if rules.utility.value is None else rules.utility.value(label),
        "coverage": Value(value=100 * coverage),
    }


def _against(rules: Contest, row: int, *, aware: bool) -> Value:
    """Return the mean over the attacks that know the defense, or over those that do not, of those run both ways."""
    numbers = rules.sign * rules.against[aware][row]
    return missing("no attack was run both ways") if np.isnan(numbers).all() else rules.mean(numbers)


def _rank(pairs: Differences, i: int, candidates: Sequence[int], winner: int | None) -> Value:
    """Return the rank of an entry among those that may win; a winner is shown to be better than each other one."""
    best, worst = pairs.places(i, candidates)
    if winner is not None:
        best, worst = (1, 1) if i == winner else (max(best, 2), worst)
    enough = pairs.units[i].max(initial=0) >= FEWEST
    return Value(value=pairs.place(i, candidates), **({"low": best, "high": worst} if enough else {}))


def _leader(pairs: Differences, i: int, candidates: Sequence[int]) -> int | None:
    """Return the candidate that is the furthest ahead of an entry; None where none is, or nothing was measured."""
    ahead = np.nan_to_num(pairs.value[list(candidates), i], nan=-np.inf)
    return candidates[int(ahead.argmax())] if ahead.max(initial=0.0) > 0 else None


def _behind(pairs: Differences, i: int, candidates: Sequence[int], winner: int | None) -> Value:
    """Return by how much the candidate that is the furthest ahead of entry i is ahead, with its interval."""
    leader = _leader(pairs, i, candidates)
    if leader is None:
        return missing("no entry is ahead")
    low, high = pairs.low[leader, i], pairs.high[leader, i]
    low = max(low, 0.0) if leader == winner else low
    return Value(value=float(pairs.value[leader, i]), **({} if np.isnan(low) else {"low": low, "high": high}))


def _needed(pairs: Differences, i: int, candidates: Sequence[int]) -> int | None:
    """Return how many units would show the best other entry to be better, if these do not; None if they do."""
    leader = _leader(pairs, i, candidates)
    return None if leader is None or pairs.better[leader, i] else pairs.needed(leader, i)


def _tried_further(places: Mapping[str, Place]) -> str:
    """Say what the number of an entry means if evidence counts against the entry; "" where there is no evidence."""
    broken = [label for label, position in places.items() if EVIDENCE_ATTACK in position.broken_by]
    if not broken:
        return ""
    return (
        f"Evidence counts against {', '.join(broken)}: on the images that were handed in, the number has the worst "
        "that anybody tried. These were chosen because they break the entry; other images and other entries were not "
        "tried in this way, and the interval does not know of that. So the number is a bound, since the same attack "
        "may do more on other images, and a better entry is one that withstood what was tried on it, which was less."
    )


def _direction(rules: Contest) -> int:
    """Return -1 where less utility is better, else 1."""
    return -1 if rules.utility.better == "lower" else 1


def _gate(rules: Contest, values: Sequence[Mapping[str, Value]]) -> tuple[float, Floats]:
    """Return the least utility that passes the gate, and the utility of each entry ``(entries,)``.

    Both are multiplied by `_direction`, so that more is better; NaN where the utility is not known.
    """
    utilities = np.array([_direction(rules) * number(cells["utility"]) for cells in values])
    plain = dict(zip(rules.scores.entries, utilities, strict=True)).get(rules.undefended, np.nan)
    return float(plain - rules.share * abs(plain)), utilities

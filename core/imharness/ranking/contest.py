"""Who wins: the worst case over everything tried, beside what it costs, with intervals of ranks.

Of every unit the worst outcome over all attacks counts. Entries are compared on the settings that they share, units are
resampled by what they come from, controls and incomplete entries take part but never win, and a winner that no test
tells from a control is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from imharness.ranking.claim import claim_of
from imharness.ranking.ranking import compared, ranked
from imharness.ranking.rules import Contest, Floats, number
from imharness.ranking.tables import mean_value, missing
from imharness.results.blocks import Blocks
from imharness.results.rankings import Place, Ranking
from imharness.results.report import TrackReport
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness.statistics.clusters import FEWEST
from imharness.statistics.ranks import Rank, front, rank_of

UNRANKED = "no finite number, or not every attack that another entry met"


def contest(rules: Contest, *, id: str, title: str, caption: str, entry: str, note: str = "") -> TrackReport:
    """Return the ranking, its table, and the comparison behind it."""
    entries = rules.scores.entries
    coverage = [rules.coverage(i) for i in range(len(entries))]
    own = rules.worst(range(len(entries)))
    complete = [i for i, share in enumerate(coverage) if share == 1.0 and not np.isnan(own[i]).all()]
    ranks = [_rank(rules, i, complete, own) for i in range(len(entries))]
    values = [_values(rules, i, coverage[i], own[i], _behind(ranks[i], i, complete)) for i in range(len(entries))]
    for found, rank in zip(values, ranks, strict=True):
        found["rank"] = _place(rank, rules.clusters)
    gate, worth = _gate(rules, values)
    ahead = front(np.array([number(own["worst"]) for own in values]) * rules.sign, worth)
    places = {
        label: Place(
            control=rules.controls.get(label, ""), complete=i in complete, front=bool(ahead[i]),
            passes=False if label in rules.below else None if np.isnan(gate + worth[i]) else bool(worth[i] >= gate),
            broken_by=rules.broken_by(i), flags=rules.flags.get(label, ()), needed=_needed(ranks[i], i, complete),
        )
        for i, label in enumerate(entries)
    }  # fmt: skip
    specs = _specs(rules)
    rows = [Row(label=label, values=own) for label, own in zip(entries, values, strict=True)]
    rows.sort(key=lambda row: not places[row.label].complete)
    table = Table(
        id=id, title=title, caption=caption, entry=entry, columns=specs, rows=tuple(ranked(rows, *specs[:2])),
        ranked_by="rank", note=note,
    )  # fmt: skip
    scores = rules.scores.part(rules.settings)
    behind = replace(rules.protection, key="", of=rules.protection.of or rules.protection.key)
    paired = compared(scores, behind, table=id, entry=entry)
    winner, claim = claim_of(rules, own, ranks, complete, places, {row.label: row.values for row in table.rows})
    ranking = Ranking(
        table=id, comparison=paired.id, over=rules.over, attack=rules.attack, attacker=rules.attacker,
        unaware=rules.unaware, balanced=rules.balanced, undefended=rules.undefended,
        gate=None if np.isnan(gate) else _way(rules) * gate, share=rules.share, places=places, winner=winner,
        claim=claim, proxies=rules.proxies,
    )  # fmt: skip
    return TrackReport([table], [paired], rankings=[ranking])


def _rank(rules: Contest, i: int, complete: Sequence[int], own: Floats) -> Rank | None:
    """Return the rank of an entry among the complete ones, over what it has itself; None where it has nothing.

    Of the attacks among which one is chosen, an incomplete entry may lack the strongest: it has no rank.
    """
    rivals = [j for j in complete if j != i]
    if np.isnan(own[i]).all() or (rules.chosen is not None and i not in complete):
        return None
    others = own[rivals] if i in complete else rules.worst(rivals, like=i)
    return rank_of(own[i], others, rules.clusters, rules.weights)


def _values(rules: Contest, i: int, coverage: float, own: Floats, behind: Value) -> dict[str, Value]:
    label = rules.scores.entries[i]
    nothing = missing(rules.unknown[label]) if label in rules.unknown else None
    return {
        "worst": nothing or rules.mean(rules.sign * own),
        "unaware": nothing or _against(rules, i, aware=False),
        "aware": nothing or _against(rules, i, aware=True),
        "utility": missing("not measured") if rules.utility.value is None else rules.utility.value(label),
        "behind": behind,
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


def _place(rank: Rank | None, clusters: npt.NDArray[np.str_] | None) -> Value:
    if rank is None:
        return missing(UNRANKED)
    told = clusters is None or len(set(clusters)) >= FEWEST
    return Value(value=rank.place, **({"low": rank.best, "high": rank.worst} if told else {}))


def _leader(rank: Rank, i: int, complete: Sequence[int]) -> int | None:
    """Return the position of the best rival among all entries but this one; None where none is ahead."""
    rivals = [j for j in complete if j != i]
    ahead = np.nan_to_num(rank.ahead, nan=-np.inf)
    return int(ahead.argmax()) if len(rivals) and ahead.max() > 0 else None


def _behind(rank: Rank | None, i: int, complete: Sequence[int]) -> Value:
    leader = None if rank is None else _leader(rank, i, complete)
    if rank is None or leader is None:
        return missing("none is ahead" if rank else UNRANKED)
    ends = {} if np.isnan(rank.low[leader]) else {"low": float(rank.low[leader]), "high": float(rank.high[leader])}
    return Value(value=float(rank.ahead[leader]), **ends)


def _needed(rank: Rank | None, i: int, complete: Sequence[int]) -> int | None:
    leader = None if rank is None else _leader(rank, i, complete)
    needed = np.nan if rank is None or leader is None else rank.needed[leader]
    return int(needed) if np.isfinite(needed) else None


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
            key="rank", label="rank", better="lower", decimals=0,
            description="One plus the number of complete entries that are ahead, each by the mean difference over what "
            "both have; its 95% interval by "
            f"simultaneous intervals of the differences to all others; {named}s are resampled.",
        ),
        of("worst", f"{own.label}, worst attack", f"{own.description} {counts}"),
        of("unaware", f"{own.label}, unaware", f"{own.description} {those} without knowledge of the defense."),
        of("aware", f"{own.label}, aware", f"{own.description} {those} that know{ending} the defense."),
        utility.model_copy(update={"key": "utility"}),
        of("behind", "behind", f"{own.label} lost to the best other entry, with its simultaneous interval.",
           better="lower"),
        ColumnSpec(key="coverage", label="coverage", decimals=0, better="higher",
                   description="Share of units and settings that an entry met, %. Only entries that met all of them "
                   "can win; the others are ranked on what they have."),
    )  # fmt: skip

"""Who wins: the worst case over everything tried, beside what it costs, with intervals of ranks.

Of every unit the worst outcome over all attacks counts. Entries are compared on the settings that they share, units are
resampled by what they come from, controls and incomplete entries take part but never win, and a winner that no test
tells from a control is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from imharness.stats import ALPHA, FEWEST, Rank, clusters_greater, front, interval, rank_of
from imharness.tracks import (
    Blocks,
    Column,
    ColumnSpec,
    Place,
    Ranking,
    Row,
    Table,
    TrackReport,
    Value,
    compared,
    mean_value,
    missing,
    ranked,
    value_of,
)

Floats = npt.NDArray[np.float64]
UNRANKED = "no finite number, or not every attack that another entry met"


@dataclass(frozen=True)
class Chosen:
    """What was tried where one attack is chosen for each entry on other units than the reported ones.

    Where an attack is right or wrong on a unit, one of many that guess is nearly always right: the worst of each unit
    would be chance. The contest's scores are then those of the chosen attacks. `tried`: the measure under every attack
    that could be chosen; what an entry lacks here counts as not covered. `kinds`: the measure under the strongest
    attack of each attacker, for the columns "unaware" and "aware". `broken_by`: entry -> attack -> how often it was
    chosen, as a share, the largest first.
    """

    tried: Blocks
    kinds: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Contest:
    """What a track ranks its entries by.

    `scores`: the measure ``protection.of`` of every entry on every unit, by setting. The worst of each unit is taken
    over the facets `over`; of these, `attack` names the attack and `attacker` what it knows, `unaware` being the value
    for "nothing". `protection` needs a direction and `wins`; its `cluster` is what is resampled. `utility`: a column
    whose `value` returns what each entry has where nobody attacks. `undefended`: the entry whose utility less `share`
    of it is the gate. `controls`: entry -> why it is never crowned. `flags`: entry -> why its number is an upper bound.
    `proxies`: what stands in for something real. `unknown`: entry -> why it has no number at all. `chosen`: where one
    attack was chosen for each entry on other units.

    `met`: a measure that is 1 where an entry met the attack, if it can have done so without a number: an attack that
    did not converge says nothing of a defense, which yet withheld nothing. By default every number that is missing
    counts against its entry. `balanced`: a facet whose values, such as families of distortions, weigh the same in all
    means however many units they have; no unit may have two of them. `all_controls`: the winner has to be better than
    controls below the gate, too; so where protection implies utility, so that no control protects by being useless.

    `claim`: the headline, with the fields ``{winner}``, ``{protection}``, ``{without}`` (the same of the undefended
    entry), ``{utility}`` and ``{plain}`` (utility of both).
    """

    scores: Blocks
    protection: Column
    utility: Column
    undefended: str
    claim: str
    over: tuple[str, ...] = ("attack", "attacker")
    attack: str = "attack"
    attacker: str = "attacker"
    unaware: str = "fixed"
    share: float = 0.05
    controls: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    proxies: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    met: str = ""
    balanced: str = ""
    all_controls: bool = False
    chosen: Chosen | None = None

    @property
    def sign(self) -> int:
        """1 where more protection is better, else -1."""
        return 1 if self.protection.better == "higher" else -1

    @cached_property
    def gains(self) -> tuple[Floats, ...]:
        """The scores, turned so that more is better: ``(entries, units)`` of each setting, NaN where not finite."""
        return self._turned(self.scores)

    @cached_property
    def known(self) -> tuple[npt.NDArray[np.bool_], ...]:
        """Where an entry has a number, or met an attack that says nothing: ``(entries, units)`` of each setting."""
        told = tuple(~np.isnan(own) for own in self.gains)
        met = self.scores.values[self.met] if self.met else told
        return tuple(a | (b == 1) for a, b in zip(told, met, strict=True))

    @cached_property
    def settings(self) -> list[int]:
        """The settings that every entry should have: those that at least half of the entries have."""
        return _common(self.known)

    @cached_property
    def names(self) -> list[str]:
        """All units, sorted."""
        return sorted({str(name) for c in self.settings for name in self.scores.units[c]})

    @cached_property
    def places(self) -> list[npt.NDArray[np.int64]]:
        """The place of each unit of each of the `settings` among `names`."""
        found = np.array(self.names)
        return [np.searchsorted(found, self.scores.units[c].astype(str)) for c in self.settings]

    @cached_property
    def clusters(self) -> npt.NDArray[np.str_] | None:
        """The cluster of each unit; None where units are independent."""
        if not self.protection.cluster:
            return None
        own = np.array(self.names, dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            own[at] = self.scores.clusters(self.protection.cluster, c)
        return own.astype(str)

    @cached_property
    def weights(self) -> Floats | None:
        """The weight of each unit, 1 on average; None where all weigh the same."""
        if not self.balanced:
            return None
        own = np.empty(len(self.names), dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            own[at] = self.scores.conditions[c][self.balanced]
        _, place, sizes = np.unique(own.astype(str), return_inverse=True, return_counts=True)
        return None if len(set(sizes)) < 2 else np.asarray(len(own) / len(sizes) / sizes[place])

    def mean(self, numbers: Floats) -> Value:
        """Return the mean of numbers ``(units,)`` as a cell; NaN is left out."""
        kept, weights = np.isfinite(numbers), self.weights
        if weights is None or not kept.any():
            return mean_value(numbers, self.clusters)
        w, x = weights[kept], (weights * numbers)[kept]
        clusters = None if self.clusters is None else self.clusters[kept]
        return value_of(interval(lambda drawn: x[drawn].sum(axis=1) / w[drawn].sum(axis=1), len(x), clusters))

    def worst(self, rows: Sequence[int], like: int | None = None) -> Floats:
        """Return the gain of each unit under the worst attack ``(rows, units)``, mean over the other facets, or NaN.

        `like`: only what this entry has counts.
        """
        return mean_of(self._groups(rows, like)[0]) if self.settings else np.zeros((len(rows), 0))

    def _groups(self, rows: Sequence[int], like: int | None) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return the worst gain ``(groups, rows, units)``, a group being the settings that differ in `over` alone, and
        the position of the setting it is of."""
        conditions = self.scores.conditions
        keys = [tuple((f, v) for f, v in conditions[c].items() if f not in self.over) for c in self.settings]
        group = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        shape = (len(group), len(rows), len(self.names))
        found, which = np.full(shape, np.nan), np.full(shape, -1)
        for key, c, at in zip(keys, self.settings, self.places, strict=True):
            own = self.gains[c][list(rows)]
            if like is not None:
                own = np.where(np.isnan(self.gains[c][like]), np.nan, own)
            here, i = found[group[key]][:, at], group[key]
            worse = np.isnan(here) & ~np.isnan(own) | (own < here)
            found[i][:, at] = np.where(worse, own, here)
            which[i][:, at] = np.where(worse, c, which[i][:, at])
        return found, which

    def coverage(self, row: int) -> float:
        """Return the share of units and settings for which an entry has a number, or met what says nothing."""
        known = [own[row] for own in self._covered]
        return float(np.concatenate(known).mean()) if known else 0.0

    @cached_property
    def _covered(self) -> list[npt.NDArray[np.bool_]]:
        """Return where entries have a number, or met what says nothing, for each setting that counts."""
        known = self.known if self.chosen is None else tuple(~np.isnan(own) for own in self._turned(self.chosen.tried))
        return [known[c] for c in _common(known)]

    def _turned(self, scores: Blocks) -> tuple[Floats, ...]:
        blocks = scores.values[self.protection.of or self.protection.key]
        return tuple(np.where(np.isfinite(b), self.sign * b.astype(np.float64), np.nan) for b in blocks)

    def broken_by(self, row: int) -> dict[str, float]:
        """Return for each attack the share of units and groups on which it was the worst, the largest first."""
        if self.chosen is not None:
            return dict(self.chosen.broken_by.get(self.scores.entries[row], {}))
        which = self._groups([row], None)[1].ravel()
        decided = [self.scores.conditions[c][self.attack] for c in which[which >= 0]]
        shares = {name: decided.count(name) / len(decided) for name in sorted(set(decided))}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


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
    ahead = front(np.array([_number(own["worst"]) for own in values]) * rules.sign, worth)
    places = {
        label: Place(
            control=rules.controls.get(label, ""), complete=i in complete, front=bool(ahead[i]),
            passes=None if np.isnan(gate + worth[i]) else bool(worth[i] >= gate),
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
    paired = replace(compared(scores, rules.protection, table=id, entry=entry), column="")
    winner, claim = _claim(rules, own, ranks, complete, places, {row.label: row.values for row in table.rows})
    ranking = Ranking(
        table=id, comparison=paired.id, over=rules.over, attack=rules.attack, attacker=rules.attacker,
        unaware=rules.unaware, balanced=rules.balanced, undefended=rules.undefended,
        gate=None if np.isnan(gate) else _way(rules) * gate, share=rules.share, places=places, winner=winner,
        claim=claim, proxies=rules.proxies,
    )  # fmt: skip
    return TrackReport([table], [paired], rankings=[ranking])


def _common(known: Sequence[npt.NDArray[np.bool_]]) -> list[int]:
    """Return the settings that at least half of the entries have."""
    return [c for c, own in enumerate(known) if np.mean(own.any(axis=1)) >= 0.5]


def mean_of(parts: Floats) -> Floats:
    """Return the mean over the first axis, NaN left out; NaN where there is nothing else."""
    count = (~np.isnan(parts)).sum(axis=0)
    found: Floats = np.full(parts.shape[1:], np.nan)
    np.divide(np.nansum(parts, axis=0), count, out=found, where=count > 0)
    return found


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
    parts = np.full((len(rules.settings), len(rules.names)), np.nan)
    for part, c, at in zip(parts, rules.settings, rules.places, strict=True):
        if (rules.scores.conditions[c][rules.attacker] != rules.unaware) == aware:
            part[at] = rules.gains[c][row]
    numbers = rules.sign * mean_of(parts)
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


def _number(value: Value) -> float:
    return np.nan if value.value is None else value.value


def _gate(rules: Contest, values: Sequence[Mapping[str, Value]]) -> tuple[float, Floats]:
    """Return the least utility that passes and that of each entry, more is better; NaN where it is not known."""
    worth = np.array([_way(rules) * _number(own["utility"]) for own in values])
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
            description="Place among complete entries on the settings that they share, and its 95% interval by "
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


def _claim(
    rules: Contest, own: Floats, ranks: Sequence[Rank | None], complete: Sequence[int], places: Mapping[str, Place],
    values: Mapping[str, Mapping[str, Value]],
) -> tuple[str, str]:  # fmt: skip
    """Return the winner, "" without one, and the headline."""
    entries, worst, utility = rules.scores.entries, rules.protection.spec, rules.utility.spec
    stands = [i for i in complete if not places[entries[i]].control and places[entries[i]].passes]
    stands = [i for i in stands if not places[entries[i]].flags]
    if not stands:
        kept = f"keeps {utility.label} within {rules.share:.0%} of {rules.undefended}"
        return "", f"No entry that met every attack {kept}: there is no winner." + _stand_ins(rules)
    first = min(stands, key=lambda i: (_number(values[entries[i]]["rank"]), entries[i]))
    controls = [i for i in complete if places[entries[i]].control]
    controls = [i for i in controls if rules.all_controls or places[entries[i]].passes]
    for rival in controls:
        reason = _not_told(rules, own[first] - own[rival], len(stands) * len(controls))
        if reason:
            doubt = f"This data cannot tell {entries[first]} from {entries[rival]} ({places[entries[rival]].control})"
            return "", f"{doubt}: {reason}." + _stand_ins(rules)
    plain = values.get(rules.undefended, {})
    said = {
        "winner": entries[first],
        "protection": _shown(values[entries[first]]["worst"], worst.decimals),
        "without": _shown(plain.get("worst"), worst.decimals),
        "utility": _shown(values[entries[first]]["utility"], utility.decimals),
        "plain": _shown(plain.get("utility"), utility.decimals),
    }
    return entries[first], rules.claim.format(**said) + _stand_ins(rules)


def _not_told(rules: Contest, gains: Floats, tests: int) -> str:
    """Say why a test does not tell that gains are above zero; empty where it does."""
    known = ~np.isnan(gains)
    spec, clusters = rules.protection.spec, None if rules.clusters is None else rules.clusters[known]
    unit = spec.cluster_unit or spec.unit or "unit"
    count = int(known.sum()) if clusters is None else len(set(clusters))
    if count < FEWEST:
        return f"it has {count} {unit}{'' if count == 1 else 's'}, and a test needs {FEWEST}"
    weights = None if rules.weights is None else rules.weights[known]
    rounded = (gains[known] * (1.0 if weights is None else weights)).astype(np.float32).astype(np.float64)
    p = float(clusters_greater(rounded, clusters)[0])
    if p * tests < ALPHA:
        return ""
    needed = rank_of(np.zeros(int(known.sum())), gains[None, known], clusters, weights).needed[0]
    about = f"; about {int(needed)} would, were the difference as large as it looks" if needed > count else ""
    return f"{count} {unit}s do not show a difference in {spec.label}{about}"


def _stand_ins(rules: Contest) -> str:
    return f" Proxies: {'; '.join(rules.proxies)}." if rules.proxies else ""


def _shown(value: Value | None, decimals: int) -> str:
    return "an unknown value" if value is None or value.value is None else f"{value.value:.{decimals}f}"

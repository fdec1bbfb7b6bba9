"""Tables by strength (11), by metric (12, 13), by attack type (14), by group of defenses (18) and by data set (19).

A table by architecture of the metrics has what figure 4 plots.
"""

from collections.abc import Collection, Mapping

from imharness.leaderboard import Row, Table, Value, facts_of
from imharness.tracks import Query
from imharness_iqa.tables.attackers import COMMON
from imharness_iqa.tables.data import BASELINE, IMPORTED_BASELINES, KINDS, PAPER, Study, column
from imharness_iqa.tables.part import Part

BY = {
    "strength": (f"Table 11 of {PAPER}: by strength of the attack", ("d", "r", "srocc")),
    "metric": (f"Tables 12 and 13 of {PAPER}: by metric", ("d", "r", "srocc")),
    "type": (f"Table 14 of {PAPER}: by type of attack", ("d", "r", "srocc", "psnr", "ssim")),
    "dataset": (f"Table 19 of {PAPER}: by data set", ("d", "r", "srocc")),
    "architecture": (f"Figure 4 of {PAPER}: by architecture of the metric", ("d", "r", "srocc")),
}
STRENGTH_ORDER = ("weak", "medium", "strong")
GROUP_COLUMNS = ("dd", "d", "rd", "r", "srocc", "psnr")
FACETS = {"architecture": "metric"}
"""The facet of conditions by which a grouping groups, where it has another name than the grouping."""
OF_CLEAN = ("dataset", "metric")
"""The facets by which results of clean images can be grouped."""
CLEAN = "clean, "
OF_CLEAN_TEXT = "Spearman correlation of f(D(x)) with the quality labels."
NO_GROUP, OTHER = "none", "other"
"""The group "none" contains only the undefended baseline; controls of it, such as a flat image, are in "other"."""
Groups = Mapping[str, Collection[str]]
"""Group -> the values of its facet."""


def tables(study: Study, architectures: Mapping[str, str] | None = None) -> list[Table]:
    """Return the tables: two for each grouping in `BY` with at least two groups, for fixed and for adaptive attacks.

    The last table is by group of defenses, for both kinds of attacks.

    `architectures`: metric -> the kind of its network; metrics that are not in it are in no group by architecture.
    """
    results, subset = [], study.reported.of(*study.chosen)
    for facet in BY:
        groups: Groups = {name: (name,) for name in sorted(subset.values(FACETS.get(facet, facet)), key=_order)}
        if facet == "architecture":
            groups = _gathered({name: members for name, members in (architectures or {}).items() if name in groups})
        if len(groups) > 1:
            results += [_by(study, facet, groups, kind) for kind in KINDS]
    return [*results, _defense_groups(study)]


def architectures(query: Query) -> dict[str, str]:
    """Return metric -> the kind of its network, such as CNN, where the metric says so."""
    return facts_of(query, "architecture", "metric")


def _gathered(kinds: Mapping[str, str]) -> Groups:
    """Return kind -> the names that have it, both sorted."""
    return {kind: [name for name in sorted(kinds) if kinds[name] == kind] for kind in sorted({*kinds.values()})}


def _order(group: str) -> tuple[int, str]:
    return (STRENGTH_ORDER.index(group) if group in STRENGTH_ORDER else len(STRENGTH_ORDER), group)


def _value(subset: Part, name: str) -> Value:
    return subset.correlation() if name == "srocc" else subset.mean(name)


def _by(study: Study, facet: str, groups: Groups, kind: str) -> Table:
    """Return the table of one grouping for one kind of attacker."""
    title, measures = BY[facet]
    attacked, by = study.reported.where(attacker=kind), FACETS.get(facet, facet)
    # group -> its results, and the measures to show of them
    subsets = {group: (attacked.where(**{by: names}), measures) for group, names in groups.items()}
    if by in OF_CLEAN:
        clean = study.reported_clean
        subsets |= {f"{CLEAN}{group}": (clean.where(**{by: names}), ("srocc",)) for group, names in groups.items()}
    if kind == "adaptive":
        common = study.reported.where(attacker=COMMON)
        subsets |= {f"fixed, {group}": (common.where(**{by: names}), ("d",)) for group, names in groups.items()}
    rows = []
    for defense in study.chosen:
        if attacked.of(defense).lines():
            values = {
                f"{group}_{name}": _value(subset.of(defense), name)
                for group, (subset, names) in subsets.items()
                for name in names
            }
            rows.append(Row(label=defense, values=values))
    members = "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items()) if by != facet else ""
    return Table(
        id=f"by-{facet}-{kind}",
        title=f"{title}, {kind} attacks",
        caption="Each image counts once, with its mean over the conditions of the group."
        + (f" {members}." if members else "")
        + (" Fixed: the same attacks without knowledge of the defense." if kind == "adaptive" else "")
        + study.half,
        entry="defense",
        columns=tuple(
            column(name, group, text=OF_CLEAN_TEXT if group.startswith(CLEAN) else "")
            for name in measures
            for group, (_, names) in subsets.items()
            if name in names
        ),
        rows=tuple(rows),
        note=study.note,
    )


def _defense_groups(study: Study) -> Table:
    members: dict[str, list[str]] = {}
    for defense in study.chosen:
        group = study.groups.get(defense, OTHER)
        named = group if group != NO_GROUP or defense in (BASELINE, *IMPORTED_BASELINES) else OTHER
        members.setdefault(named, []).append(defense)
    rows = []
    for group, defenses in sorted(members.items()):
        subset = study.reported.of(*defenses)
        values = {
            f"{kind}_{name}": _value(subset.where(attacker=kind), name) for kind in KINDS for name in GROUP_COLUMNS
        }
        values["common_d"] = _value(subset.where(attacker=COMMON), "d")
        values["srocc_clean"] = study.reported_clean.of(*defenses).correlation()
        rows.append(Row(label=group, title=", ".join(defenses), values=values))
    columns = [column(name, kind) for name in GROUP_COLUMNS for kind in KINDS]
    columns.append(column("d", "fixed, conditions of adaptive", "common_d"))
    columns.append(column("srocc", "clean", "srocc_clean", OF_CLEAN_TEXT))
    return Table(
        id="by-group",
        title=f"Table 18 of {PAPER}: by group of defenses",
        caption=f"Means over the defenses of a group.{study.half}",
        entry="group",
        columns=tuple(columns),
        rows=tuple(rows),
        note=study.note,
    )

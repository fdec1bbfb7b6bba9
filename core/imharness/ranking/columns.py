"""The columns of a ranking's table."""

from __future__ import annotations

from imharness.documents.tables import ColumnSpec
from imharness.ranking.rules import Contest

UNAWARE, AWARE = "attacker does not know the defense", "attacker knows the defense"


def columns_of(rules: Contest) -> tuple[ColumnSpec, ...]:
    """Return the columns of a ranking's table, described in the words of its measures."""
    protection, utility = rules.protection.spec, rules.utility.spec
    unit = protection.cluster_unit or protection.unit or "unit"
    if rules.chosen is not None:
        counts, both_ways = "The strongest attack on each entry counts.", "The strongest attack"
    else:
        counts = "The worst of all attacks counts for each unit."
        both_ways = "Mean over the attacks that were run both ways"

    def measure(key: str, label: str, description: str, **changes: object) -> ColumnSpec:
        """Return a column whose numbers have the unit, direction and decimals of the measure of protection."""
        return protection.model_copy(update={"key": key, "label": label, "description": description, **changes})

    return (
        ColumnSpec(
            key="rank",
            label="rank",
            better="lower",
            decimals=0,
            description="One plus the number of entries that may win and are ahead, each by the mean difference over "
            "what both have. Controls, and entries that cannot win, have no rank. Its 95% interval is by simultaneous "
            f"intervals of the differences between all entries, over {unit}s. A winner's rank is 1.",
        ),
        measure("worst", f"{protection.label}, worst attack", f"{protection.description} {counts}"),
        measure(
            "unaware",
            f"{protection.label}, {UNAWARE}",
            f"{protection.description} {both_ways}, without knowledge of the entry.",
        ),
        measure(
            "aware",
            f"{protection.label}, {AWARE}",
            f"{protection.description} {both_ways}, with knowledge of the entry.",
        ),
        measure(
            "gain",
            f"against {rules.baseline_name}",
            f"{protection.label} less that of {rules.compared_with}, over {unit}s. Its ends hold at once for all "
            "entries: of "
            "the 5 %, 4 are spent on “better” and 1 on “worse”.",
            limits=None,
        ),
        ColumnSpec(
            key="p",
            label="p (Holm)",
            better="lower",
            decimals=4,
            description="Wilcoxon signed-rank test, one-sided: is the entry better than "
            f"{rules.baseline_name}? Exact up to 50 "
            f"{unit}s, ties included; differences of 0 are left out. Its hypothesis is that the differences are "
            "symmetric about 0. Corrected over the entries of the ranking by Holm.",
        ),
        utility.model_copy(update={"key": "utility"}),
        measure(
            "behind",
            "behind",
            f"{protection.label} lost to the best other entry that may win, with its simultaneous interval.",
            better="lower",
            limits=None,
        ),
        ColumnSpec(
            key="coverage",
            label="coverage",
            decimals=0,
            better="higher",
            description="Share of units and settings that an entry met, %. Only entries that met all of them "
            "can win; the others have no rank.",
        ),
    )

"""The headline of a ranking: what the winner does, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imharness.ranking.rules import Contest
from imharness.results.rankings import Place
from imharness.results.tables import Value
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import MOST, Differences


def claim_of(
    rules: Contest,
    told: Differences,
    complete: Sequence[int],
    places: Mapping[str, Place],
    values: Mapping[str, Mapping[str, Value]],
) -> tuple[str, str]:
    """Return the winner, "" without one, and the headline."""
    entries, worst, utility = rules.scores.entries, rules.protection.spec, rules.utility.spec
    stands = [i for i in complete if not places[entries[i]].control and places[entries[i]].passes]
    stands = [i for i in stands if not places[entries[i]].flags]
    gap = _undefined(rules, complete, places, values)
    if not stands and gap:
        return "", f"{gap}: there is no winner." + _stand_ins(rules)
    if not stands:
        kept = f"keeps {utility.label} within {rules.share:.0%} of {rules.undefended}"
        return "", f"No entry that met every attack {kept}: there is no winner." + _stand_ins(rules)
    first = told.leader(stands)
    controls = [i for i in complete if places[entries[i]].control]
    controls = [i for i in controls if rules.all_controls or places[entries[i]].passes]
    for rival in controls:
        reason = _not_told(rules, told, first, rival)
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


def _undefined(
    rules: Contest, complete: Sequence[int], places: Mapping[str, Place], values: Mapping[str, Mapping[str, Value]]
) -> str:
    """Say why it is not known which entries keep their utility; empty where it is known of any that could win."""
    entries = [rules.scores.entries[i] for i in complete]
    able = [label for label in entries if not places[label].control and not places[label].flags]
    if not able or any(places[label].passes is not None for label in able):
        return ""
    plain = values.get(rules.undefended, {}).get("utility")
    whose = rules.undefended if plain is None or plain.value is None else able[0]
    value = values.get(whose, {}).get("utility")
    why = value.missing if value is not None and value.missing else "not measured"
    return f"{rules.utility.spec.label} of {whose} is not defined ({why}), so that no entry can be said to keep it"


def _not_told(rules: Contest, told: Differences, first: int, rival: int) -> str:
    """Say why an entry is not shown to be better than another one; empty where it is."""
    if told.better[first, rival]:
        return ""
    spec, count = rules.protection.spec, int(told.units[first, rival])
    unit = spec.cluster_unit or spec.unit or "unit"
    if count < FEWEST:
        return f"they share {count} {unit}{'' if count == 1 else 's'}, but an interval needs at least {FEWEST}"
    if told.value[first, rival] <= 0:
        return f"in {spec.label} over {count} {unit}s it is not ahead"
    needed = told.needed(first, rival)
    many = f"more than {MOST:,}" if needed is None else f"about {needed}"
    return (
        f"{count} {unit}s do not show a difference in {spec.label}; {many} would in four of five such studies, were "
        "the difference as large as it looks"
    )


def _stand_ins(rules: Contest) -> str:
    return f" Proxies: {'; '.join(rules.proxies)}." if rules.proxies else ""


def _shown(value: Value | None, decimals: int) -> str:
    return "an unknown value" if value is None or value.value is None else f"{value.value:.{decimals}f}"

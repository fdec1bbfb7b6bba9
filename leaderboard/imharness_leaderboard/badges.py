"""Remarks about the rows of a ranking: who wins, what is a control, what is broken, flagged or incomplete."""

from collections.abc import Mapping
from typing import NamedTuple

from imharness.results.rankings import Ranking


class Badge(NamedTuple):
    """A remark about a row: its kind (a CSS class), its text, and the reason behind it."""

    kind: str
    text: str
    title: str


def badges_of(ranking: Ranking, label: str, attack_names: Mapping[str, str]) -> list[Badge]:
    """Return the remarks about an entry of a ranking; `attack_names`: attack -> its short name."""
    place, found = ranking.places[label], []
    if label == ranking.winner:
        found.append(
            Badge("first", "winner", "Shown to be better than each other entry that may win, and than every control")
        )
    elif label in ranking.may_be_best:
        found.append(Badge("first", "may be best", "No entry that may win is shown to protect better"))
    if place.control:
        found.append(
            Badge("control", "control", f"{place.control}: a line of reference that has no place and never wins")
        )
    if place.broken is not None and (attack := place.broken.attack):
        why = "The worst attack is shown to leave less than half of what it seems to protect"
        found.append(Badge("broken", f"broken by {attack_names[attack]}", why))
    found += [Badge("flagged", "flagged", f"{flag}: its protection is an upper bound") for flag in place.flags]
    if not place.complete:
        found.append(Badge("incomplete", "incomplete", "It lacks settings that others have, and cannot win"))
    if ranking.proxies:
        found.append(Badge("proxy", "proxy", "; ".join(ranking.proxies)))
    return found

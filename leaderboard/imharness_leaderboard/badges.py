"""Remarks about the rows of a ranking: who wins, what is a control, what is broken, flagged or incomplete."""

from collections.abc import Mapping
from typing import NamedTuple

from imharness.results.rankings import Ranking


class Badge(NamedTuple):
    """A remark about a row: its kind (a CSS class), its text, and the reason behind it."""

    kind: str
    text: str
    title: str


def ahead_of(ranking: Ranking, label: str) -> list[str]:
    """Return the entries that may win and are shown to protect better than another one, by the ranking's measure.

    An entry may still be best by another measure that decides, so that it can stand in `Ranking.may_be_best`.
    """
    found = [own.entry for own in ranking.findings if own.kind == "better" and label in own.against]
    return [entry for entry in found if ranking.places[entry].able and not ranking.places[entry].flags]


def badges_of(ranking: Ranking, label: str, attack_names: Mapping[str, str]) -> list[Badge]:
    """Return the remarks about an entry of a ranking; `attack_names`: attack -> its short name."""
    place, found = ranking.places[label], []
    if label == ranking.winner:
        found.append(
            Badge("first", "winner", "Shown to be better than each other entry that may win, and than every control")
        )
    elif label in ranking.may_be_best:
        why = "No entry that may win is shown to protect better"
        why += ", by another measure that decides" if ahead_of(ranking, label) else ""
        found.append(Badge("first", "may be best", why))
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

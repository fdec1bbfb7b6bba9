"""The choices above the table of a ranking: which attacker, which attack, and each other facet of the settings."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from imharness.results.rankings import Ranking
from imharness_leaderboard.names import attack_names


class Picker(NamedTuple):
    """A choice above the table: its name in the address, its label, and its options with their texts.

    That of the attacker is shown as buttons.
    """

    key: str
    label: str
    options: Sequence[tuple[str, str]]


def pickers_of(ranking: Ranking, facets: Mapping[str, Sequence[str]]) -> list[Picker]:
    """Return the choices: the attacker first, then the attack, then the others. `facets`: name -> its values."""
    found = []
    known = facets.get(ranking.attacker, ())
    if ranking.unaware in known:
        found.append(
            Picker(
                "attacker",
                "Attacker",
                (
                    ("unaware", "Does not know it"),
                    ("aware", "Knows it"),
                    ("", "Worst of both"),
                ),
            )
        )
    order = sorted(facets, key=lambda name: name != ranking.attack)
    for name in order:
        if name != ranking.attacker:
            options = [("", "worst of all" if name in ranking.over else "all")]
            options += list(attack_names(facets[name]).items())
            found.append(Picker(name, name.capitalize(), options))
    return found

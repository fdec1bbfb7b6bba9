"""The choices above the table of a ranking: which attacker, which attack, and each other facet of the settings."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from imharness.results.rankings import Ranking
from imharness_leaderboard.wording import brief


class Picker(NamedTuple):
    """A choice above the table: its name in the address, its label, and its options with their texts."""

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
                    ("", "worst of all"),
                    ("unaware", "does not know the defense"),
                    ("aware", "knows the defense"),
                ),
            )
        )
    order = sorted(facets, key=lambda name: name != ranking.attack)
    for name in order:
        if name != ranking.attacker:
            options = [("", "worst of all" if name in ranking.over else "all")]
            options += [(value, brief(value)) for value in facets[name]]
            found.append(Picker(name, name.capitalize(), options))
    return found

"""What is in and around the rows of a ranking: groups, remarks, choices above, and pages for many rows.

The first rows are in the page of the track, the others on further pages. A reader without scripts goes from page to
page. The script of the track's page has an index of all rows, which it fetches when a reader first sorts, filters or
turns a page. It takes the rows themselves from the pages that show them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from imharness.documents.entries import NOT_JUDGED, Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.rankings import Place, Ranking, p_text
from imharness.documents.tables import Row, Table
from imharness_leaderboard.addresses import rows_page, track_page
from imharness_leaderboard.entries import barred_words, keeps, kept_words
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.interval_rows import Lane
from imharness_leaderboard.names import attack_names

Group = Literal["eligible", "worse", "barred", "control"]
GROUPS: Mapping[Group, str] = {
    "eligible": "May win",
    "worse": "Shown to be worse than {baseline}",
    "barred": "Cannot win",
    "control": "Controls: for reference, never win",
}
"""The groups of rows in their order, with the title of each."""
_YEAR = re.compile(r"\((\d{4})\)")

SHOWN = 50
"""How many rows a page shows at once; the script has the same number."""
WHOLE = 100
"""A ranking of at most so many rows stands in the page of its track as a whole."""
RowT = TypeVar("RowT")


class Badge(NamedTuple):
    """A remark about a row: its kind (a CSS class), its text, and the reason behind it."""

    kind: str
    text: str
    title: str


def badges_of(ranking: Ranking, label: str, attack_names: Mapping[str, str]) -> list[Badge]:
    """Return the remarks about an entry of a ranking; `attack_names`: attack -> its short name."""
    position, badges = ranking.places[label], []
    if label == ranking.winner:
        badges.append(
            Badge("first", "winner", "Shown to be better than each other entry that may win, and than every control")
        )
    if position.control:
        badges.append(
            Badge("control", "control", f"{position.control}: a line of reference that has no rank and never wins")
        )
    if position.broken is not None and (attack := position.broken.attack):
        why = "The worst attack is shown to leave less than half of what it seems to protect"
        badges.append(Badge("broken", f"broken by {attack_names[attack]}", why))
    for flag in position.flags:
        text = NOT_JUDGED if flag.startswith(NOT_JUDGED) else "flagged"
        badges.append(Badge("flagged", text, f"{flag}: its protection is an upper bound"))
    if ranking.proxies:
        badges.append(Badge("proxy", "proxy", "; ".join(ranking.proxies)))
    return badges


def group_titles(ranking: Ranking) -> dict[Group, str]:
    """Return the groups in their order, with the title of each."""
    return {group: title.format(baseline=ranking.baseline_name) for group, title in GROUPS.items()}


def groups_of(table: Table, ranking: Ranking) -> dict[str, Group]:
    """Return the group of each row, such that ranks run 1, 2, 3 down the page.

    Entries that are shown to be worse than the baseline have a separate group, if all entries that rank below them are
    shown to be worse, too.
    """
    labels = [row.label for row in table.rows if row.label in ranking.places]
    ranked = [label for label in labels if ranking.places[label].eligible]
    end = next((i for i in range(len(ranked), 0, -1) if not _shown_worse(ranking.places[ranked[i - 1]])), 0)
    below = set(ranked[end:])

    def group(label: str) -> Group:
        position = ranking.places[label]
        if position.control:
            return "control"
        return ("worse" if label in below else "eligible") if position.eligible else "barred"

    return {label: group(label) for label in labels}


def _shown_worse(position: Place) -> bool:
    return position.against is not None and position.against.verdict == "worse"


def unseparated(ranking: Ranking) -> tuple[str, ...]:
    """Return the first entry, and the entries that may win and are not separated from it; empty without a first one."""
    others = [label for label in ranking.not_behind if ranking.places[label].eligible]
    return (ranking.first, *others) if ranking.first else ()


def year_of(entries: Sequence[Entry]) -> str:
    """Return the year of the paper that the last of several components follows; "" where none names one."""
    years = [match[1] for entry in entries if (match := _YEAR.search(entry.paper))]
    return years[-1] if years else ""


class Further(NamedTuple):
    """A further measure of a ranking: its name, what it is, and the number of each entry as text."""

    label: str
    description: str
    better: str
    texts: Mapping[str, str]


class Bar(NamedTuple):
    """An attack's effect on an entry: the attack, the number as text, and the length of the bar in px."""

    name: str
    value: str
    length: float
    aware: bool


@dataclass(frozen=True)
class RankedRow:
    """A row of the ranking and everything behind it. `chips` are the parameters, `lane` its drawing."""

    row: Row
    place: Place
    name: str
    chips: Sequence[str]
    group: Group
    near: bool
    """Whether it may win and is the first, or not separated from the first."""
    lane: Lane
    worst_attack: str
    badges: Sequence[Badge]
    bars: Sequence[Bar]
    images: Sequence[GalleryExample]
    needed: int | None
    """How many units, or clusters, would separate it from the first; None where the present ones do or if unknown."""
    entries: Sequence[Entry]
    command: str
    bibtex: str
    page: str
    """The address of the page with its details."""

    @property
    def year(self) -> str:
        """The year of its paper; "" where none is named."""
        return year_of(self.entries)

    @property
    def reason(self) -> str:
        """What keeps it from winning, in words; "" where nothing does."""
        return barred_words(self.place)

    @property
    def further_reason(self) -> str:
        """What keeps it from winning, whichever settings count: all but that it lacks some."""
        return barred_words(self.place.model_copy(update={"complete": True}))

    @property
    def keeps(self) -> str:
        """Whether it keeps what it must keep: "keeps", "undecided", "loses" or why that is not known."""
        return keeps(self.place.gate)

    @property
    def tested(self) -> str:
        """The p of Wilcoxon's test against no defense, as it is and corrected; empty where nothing was tested."""
        comparison = self.place.against
        if comparison is None or comparison.p is None or comparison.p_holm is None:
            return ""
        return f"p {p_text(comparison.p)} ({p_text(comparison.p_holm)})"

    @property
    def gate(self) -> str:
        """What it keeps of what it must keep, in words."""
        return brief("; ".join(map(kept_words, self.place.gate_numbers)))


@dataclass(frozen=True)
class Part(Generic[RowT]):
    """Some rows of a ranking: where they start, counted from 1, and the address of the page that shows them."""

    number: int
    start: int
    rows: Sequence[RowT]
    page: str

    @property
    def end(self) -> int:
        """The place of the last row, counted from 1."""
        return self.start + len(self.rows) - 1


def parts_of(leaderboard: Leaderboard, table: Table, rows: Sequence[RowT]) -> list[Part[RowT]]:
    """Return the parts of a ranking, one where it is short."""
    size = SHOWN if len(rows) > WHOLE else WHOLE
    return [
        Part(
            number,
            start + 1,
            rows[start : start + size],
            track_page(leaderboard) if number == 1 else rows_page(leaderboard, table, number),
        )
        for number, start in enumerate(range(0, max(len(rows), 1), size), 1)
    ]


class Picker(NamedTuple):
    """A choice above the table: its name in the address, its label, and its options with their texts.

    That of the attacker is shown as buttons.
    """

    key: str
    label: str
    options: Sequence[tuple[str, str]]


def pickers_of(ranking: Ranking, facets: Mapping[str, Sequence[str]]) -> list[Picker]:
    """Return the choices: the attacker first, then the attack, then the others. `facets`: name -> its values."""
    pickers = []
    facet_values = facets.get(ranking.attacker, ())
    if ranking.unaware in facet_values:
        pickers.append(
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
            pickers.append(Picker(name, name.capitalize(), options))
    return pickers

"""The findings of a ranking as pages show them: tier by tier, grouped by kind, a few on the page of the track."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, get_args

from imharness.documents.findings import LEADING, Finding, Kind, Tier, by_tier
from imharness.documents.rankings import Ranking
from imharness_leaderboard.names import in_names

KINDS: Mapping[Kind, str] = {
    "better": "Better than {baseline}",
    "moves": "Once attackers know it",
    "worse": "Worse than {baseline}, or than a control",
    "broken": "Broken by an attack",
    "costs": "Utility",
    "may be best": "Who may be the best",
    "undecided": "Not separated from {baseline}",
    "gate": "Utility undecided",
    "incomplete": "Incomplete",
    "flagged": "Flagged",
}
"""What each kind of sentence is about."""


class TierView(NamedTuple):
    """A tier's findings: how many `sentences` there are, and the shown ones, each group a title and its sentences."""

    tier: Tier
    sentences: int
    groups: Sequence[tuple[str, Sequence[str]]]

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.sentences - sum(len(texts) for _, texts in self.groups)


def tiers_of(ranking: Ranking, names: Mapping[str, str], most: int | None = LEADING) -> list[TierView]:
    """Return the tiers of findings, with at most so many sentences each; `names`: label -> what it is called."""
    return [
        TierView(tier, len(members), _groups(ranking, members if most is None else leading(members, most), names))
        for tier, members in by_tier(ranking.findings).items()
    ]


def leading(findings: Sequence[Finding], most: int) -> list[Finding]:
    """Return at most so many findings, in their order: the first of each kind, then the second of each, and so on."""
    turns: dict[Kind, int] = {}
    ranked = []
    for index, finding in enumerate(findings):
        turns[finding.kind] = turns.get(finding.kind, 0) + 1
        ranked.append((turns[finding.kind], index))
    return [findings[index] for index in sorted(index for _, index in sorted(ranked)[:most])]


def _groups(ranking: Ranking, findings: Sequence[Finding], names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    kinds = get_args(Kind)
    ordered = sorted(findings, key=lambda finding: kinds.index(finding.kind))
    grouped = groupby(ordered, key=lambda finding: finding.kind)
    return [
        (
            KINDS[kind].format(baseline=ranking.baseline_name),
            [in_names(finding.text, names) for finding in members],
        )
        for kind, members in grouped
    ]

"""What follows from the votes: majorities, Fleiss' kappa, decoys, and a Bradley-Terry ranking."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.stats import NotTestable, bradley_terry
from imharness_annotation.book import Vote

FACTS = ("dataset", "attack", "model", "defense", "metric", "strength", "name", "left", "right")


@dataclass(frozen=True)
class Verdict:
    """The majority on one reconstruction: `recognised` when more than half of its votes are right."""

    facts: Mapping[str, str]
    recognised: bool
    votes: int


def majorities(votes: Sequence[Vote]) -> list[Verdict]:
    """Return one verdict per question that has a right answer and is no decoy."""
    groups: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if vote.truth and not vote.decoy:
            groups[vote.key].append(vote)
    return [
        Verdict(group[0].facts, 2 * sum(v.answer == v.truth for v in group) > len(group), len(group))
        for group in groups.values()
    ]


def fleiss_kappa(votes: Sequence[Vote]) -> tuple[float, int, int]:
    """Return Fleiss' kappa, the number of questions and the votes per question.

    Only the questions with the most frequent number of votes count, and only with two votes or more. Raises
    `NotTestable` when there are none, or when all votes are one answer.
    """
    from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        if not vote.decoy:
            answers[vote.key][vote.answer] += 1
    sizes = Counter(sum(c.values()) for c in answers.values() if sum(c.values()) > 1)
    if not sizes:
        raise NotTestable("no question has two votes yet")
    raters = max(sizes, key=lambda n: (sizes[n], n))
    kept = [c for c in answers.values() if sum(c.values()) == raters]
    categories = sorted({answer for c in kept for answer in c})
    counts = np.array([[c[answer] for answer in categories] for c in kept], dtype=np.float64)
    if len(categories) == 1:
        raise NotTestable("all votes are one answer")
    return float(statsmodels_kappa(counts)), len(kept), raters


def decoy_accuracy(votes: Sequence[Vote]) -> dict[str, tuple[int, int]]:
    """Return per annotator (right answers to decoys, decoys answered)."""
    found: dict[str, tuple[int, int]] = {}
    for vote in votes:
        right, total = found.get(vote.annotator, (0, 0))
        if vote.decoy:
            right, total = right + (vote.answer == vote.truth), total + 1
        found[vote.annotator] = (right, total)
    return found


def ranking(votes: Sequence[Vote]) -> list[tuple[str, float, int, int]]:
    """Return (entry, Bradley-Terry log-strength, wins, votes), best first; raises `NotTestable`."""
    pairs = [v for v in votes if not v.decoy and "left" in v.facts]
    names = sorted({v.facts[side] for v in pairs for side in ("left", "right")})
    if len(names) < 2:
        raise NotTestable("no pair was judged yet")
    wins = np.zeros((len(names), len(names)))
    for vote in pairs:
        sides = [names.index(vote.facts[side]) for side in ("left", "right")]
        winner, loser = sides if vote.answer == "left" else sides[::-1]
        wins[winner, loser] += 1
    strength = bradley_terry(wins)
    rows = [
        (name, float(strength[i]), int(wins[i].sum()), int(wins[i].sum() + wins[:, i].sum()))
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: -row[1])


def write_csv(file: Path, votes: Sequence[Vote]) -> None:
    """Write every vote as one line."""
    with file.open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow([*FACTS, "truth", "decoy", "annotator", "answer", "at"])
        for v in votes:
            facts = [v.facts.get(fact, "") for fact in FACTS]
            lines.writerow([*facts, v.truth, int(v.decoy), v.annotator, v.answer, v.at])

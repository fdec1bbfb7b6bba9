"""Evaluates the votes: majorities, Fleiss' kappa, decoys, and a Bradley-Terry ranking."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.stats import Interval, NotTestable, bradley_terry, mean_interval
from imharness_annotation.book import Vote

FACTS = ("dataset", "attack", "model", "defense", "metric", "strength", "name", "shown", "left", "right")
IMAGE = ("dataset", "attack", "metric", "strength", "name")
"""The facts that identify the images of a choice between defenses."""


@dataclass(frozen=True)
class Verdict:
    """The majority on one reconstruction: `recognised` when more than half of its votes are right."""

    facts: Mapping[str, str]
    recognised: bool
    votes: int


def majorities(votes: Sequence[Vote], planned: int) -> list[Verdict]:
    """Return a verdict per question that has a right answer, is not a decoy, and has at least the planned votes."""
    groups: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if vote.truth and not vote.decoy:
            groups[vote.key].append(vote)
    return [
        Verdict(group[0].facts, 2 * sum(v.answer == v.truth for v in group) > len(group), len(group))
        for group in groups.values()
        if len(group) >= planned
    ]


def fleiss_kappa(votes: Sequence[Vote], *, recognised: bool = False) -> tuple[float, int, int]:
    """Return Fleiss' kappa, the number of questions and the votes per question.

    `recognised`: take kappa of right or wrong, as verdicts do, instead of the answers themselves; two people who both
    fail to recognise an image need not agree on what it shows. Only the questions with the most frequent number of
    votes count, and only with two votes or more. Raises `NotTestable` if there are none, or if all votes have the same
    answer.
    """
    from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_kappa

    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        if not vote.decoy and (vote.truth or not recognised):
            answers[vote.key][str(vote.answer == vote.truth) if recognised else vote.answer] += 1
    sizes = Counter(sum(c.values()) for c in answers.values() if sum(c.values()) > 1)
    if not sizes:
        raise NotTestable("no question has two votes yet")
    raters = max(sizes, key=lambda n: (sizes[n], n))
    kept = [c for c in answers.values() if sum(c.values()) == raters]
    categories = sorted({answer for c in kept for answer in c})
    counts = np.array([[c[answer] for answer in categories] for c in kept], dtype=np.float64)
    if len(categories) == 1:
        raise NotTestable("all votes have the same answer")
    return float(statsmodels_kappa(counts)), len(kept), raters


def decoy_accuracy(votes: Sequence[Vote]) -> dict[str, tuple[int, int]]:
    """Return for each annotator the number of right answers to decoys and of decoys answered."""
    found: dict[str, tuple[int, int]] = {}
    for vote in votes:
        right, total = found.get(vote.annotator, (0, 0))
        if vote.decoy:
            right, total = right + (vote.answer == vote.truth), total + 1
        found[vote.annotator] = (right, total)
    return found


def ranking(votes: Sequence[Vote], planned: int) -> list[tuple[str, Interval]]:
    """Return (entry, mean Bradley-Terry log-strength with its interval over images), best first.

    Strengths are computed for each image and averaged, as in the subjective study of Gushchin et al. (2025). An image
    counts only if all its pairs have the planned votes. With k entries, 1/k of a vote is added to either side of every
    pair: a unanimous pair then has a finite strength, and strengths from few votes are nearly unbiased (Firth,
    Biometrika 80, 1993: half of the leverage, which is 2/k on average).
    Raises `NotTestable` if no image counts.
    """
    pairs = [v for v in votes if not v.decoy and "left" in v.facts]
    names = sorted({v.facts[side] for v in pairs for side in ("left", "right")})
    place = {name: i for i, name in enumerate(names)}
    wins: dict[tuple[str, ...], np.ndarray] = defaultdict(lambda: np.zeros((len(names), len(names))))
    for vote in pairs:
        sides = [place[vote.facts[side]] for side in ("left", "right")]
        winner, loser = sides if vote.answer == "left" else sides[::-1]
        wins[tuple(vote.facts.get(fact, "") for fact in IMAGE)][winner, loser] += 1
    other = ~np.eye(len(names), dtype=bool)
    whole = [won for won in wins.values() if ((won + won.T)[other] >= planned).all()]
    if len(names) < 2 or not whole:
        raise NotTestable(f"no image has {planned} votes on every pair yet")
    strengths = np.array([bradley_terry(won + other / len(names)) for won in whole])
    rows = [(name, mean_interval(strengths[:, i])) for i, name in enumerate(names)]
    return sorted(rows, key=lambda row: -row[1].value)


def write_csv(file: Path, votes: Sequence[Vote]) -> None:
    """Write every vote as one line."""
    with file.open("w", encoding="utf-8", newline="") as out:
        lines = csv.writer(out)
        lines.writerow([*FACTS, "truth", "decoy", "annotator", "answer", "at"])
        for v in votes:
            facts = [v.facts.get(fact, "") for fact in FACTS]
            lines.writerow([*facts, v.truth, int(v.decoy), v.annotator, v.answer, v.at])

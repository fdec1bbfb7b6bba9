"""Evaluates the votes: majorities, Fleiss' kappa, decoys, a Bradley-Terry ranking, and shares of people."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.errors import UsageError
from imharness.leaderboard import Interval, NotTestable, bradley_terry, mean_interval
from imharness_annotation.book import Book, Vote
from imharness_annotation.sources import NONE, ORIGINAL

FACTS = ("dataset", "attack", "model", "defense", "metric", "strength", "attacker", "name", "shown", "left", "right")
IMAGE = ("dataset", "attack", "metric", "strength", "attacker", "name")
"""The facts that identify an evaluation: one image under one attack, metric, strength and attacker."""

BAPPS = {"2afc": (("ref", "p0", "p1"), "judge", "right"), "jnd": (("p0", "p1"), "same", "same")}
"""Kind of question -> (folders of its images, folder of the shares, the answer whose share of votes is written)."""


@dataclass(frozen=True)
class Verdict:
    """The majority on one reconstruction: `recognised` when more than half of its votes are right."""

    key: str
    facts: Mapping[str, str]
    recognised: bool
    votes: int


def majorities(votes: Sequence[Vote], planned: int) -> list[Verdict]:
    """Return a verdict per question that has a right answer, is not a decoy, and has at least the planned votes.

    Where people were asked about originals, too, the right answer is the one that most of them gave on the original
    (Sun et al., section 4.1), and there is no verdict before the original has its votes. "None of them" is never right:
    two images that nobody can name need not show the same.
    """
    groups: dict[str, list[Vote]] = defaultdict(list)
    named: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for vote in votes:
        if vote.facts.get("defense") == ORIGINAL:
            named[_original(vote)][vote.answer] += 1
        elif vote.truth and not vote.decoy and not vote.training:
            groups[vote.key].append(vote)
    verdicts = []
    for group in groups.values():
        answers = named.get(_original(group[0]))
        if len(group) < planned or (named and (answers is None or answers.total() < planned)):
            continue
        right = min(answers, key=lambda a, c=answers: (-c[a], a)) if answers else group[0].truth
        right_votes = sum(vote.answer == right and right != NONE for vote in group)
        verdicts.append(Verdict(group[0].key, group[0].facts, 2 * right_votes > len(group), len(group)))
    return verdicts


def _original(vote: Vote) -> tuple[str, str]:
    """Return the data set and the name of the original image of a question."""
    return vote.facts.get("dataset", ""), vote.facts.get("name", "")


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
    full_counts = [c for c in answers.values() if sum(c.values()) == raters]
    categories = sorted({answer for c in full_counts for answer in c})
    counts = np.array([[c[answer] for answer in categories] for c in full_counts], dtype=np.float64)
    if len(categories) == 1:
        raise NotTestable("all votes have the same answer")
    return float(statsmodels_kappa(counts)), len(full_counts), raters


def decoy_accuracy(votes: Sequence[Vote]) -> dict[str, tuple[int, int]]:
    """Return for each annotator the number of right answers to decoys and of decoys answered."""
    tallies: dict[str, tuple[int, int]] = {}
    for vote in votes:
        right, total = tallies.get(vote.annotator, (0, 0))
        if vote.decoy and not vote.training:
            right, total = right + (vote.answer == vote.truth), total + 1
        tallies[vote.annotator] = (right, total)
    return tallies


@dataclass(frozen=True)
class Evaluation:
    """The outcome of all choices between defenses on one image.

    Attributes:
        facts: the image, see `IMAGE`.
        strengths: defense -> its Bradley-Terry log-strength.
        votes: the smallest number of votes on a pair of defenses.
    """

    facts: Mapping[str, str]
    strengths: Mapping[str, float]
    votes: int


def evaluations(votes: Sequence[Vote], planned: int) -> list[Evaluation]:
    """Return the Bradley-Terry log-strengths of each image of which all pairs have the planned votes.

    With k entries, 1/k of a vote is added to either side of every pair: a unanimous pair then has a finite strength,
    and strengths from few votes are nearly unbiased (Firth, Biometrika 80, 1993: half of
    a pair's leverage, which is 2/k on average).
    """
    pairs = [v for v in votes if not v.decoy and not v.training and "left" in v.facts]
    names = sorted({v.facts[side] for v in pairs for side in ("left", "right")})
    index = {name: i for i, name in enumerate(names)}
    wins: dict[tuple[str, ...], np.ndarray] = defaultdict(lambda: np.zeros((len(names), len(names))))
    for vote in pairs:
        sides = [index[vote.facts[side]] for side in ("left", "right")]
        winner, loser = sides if vote.answer == "left" else sides[::-1]
        wins[tuple(vote.facts.get(fact, "") for fact in IMAGE)][winner, loser] += 1
    other, outcomes = ~np.eye(len(names), dtype=bool), []
    for image, won in wins.items():
        pair_votes = (won + won.T)[other]
        if len(names) > 1 and (pair_votes >= planned).all():
            strengths = bradley_terry(won + other / len(names))
            facts = dict(zip(IMAGE, image, strict=True))
            outcomes.append(Evaluation(facts, dict(zip(names, strengths.tolist(), strict=True)), int(pair_votes.min())))
    return outcomes


def ranking(votes: Sequence[Vote], planned: int) -> list[tuple[str, Interval]]:
    """Return (entry, mean Bradley-Terry log-strength with its interval), best first.

    Strengths are computed for each evaluation and averaged, as in appendix A.2 of Gushchin et al. (2025). The interval
    is over images: evaluations of one image under several attacks are one cluster. Raises `NotTestable` if no image
    counts.
    """
    whole = evaluations(votes, planned)
    if not whole:
        raise NotTestable(f"no image has {planned} votes on every pair yet")
    images = [f"{evaluation.facts['dataset']} {evaluation.facts['name']}" for evaluation in whole]
    rows = [
        (name, mean_interval([evaluation.strengths[name] for evaluation in whole], images))
        for name in whole[0].strengths
    ]
    return sorted(rows, key=lambda row: -row[1].value)


def subjective_rows(results: Sequence[Evaluation]) -> dict[str, list]:
    """Return evaluations as columns of one length, one row for each defense, for the tables of the track."""
    rows = [(evaluation, name, strength) for evaluation in results for name, strength in evaluation.strengths.items()]
    facts = {fact: [evaluation.facts[fact] for evaluation, _, _ in rows] for fact in IMAGE}
    return {
        **facts,
        "defense": [name for _, name, _ in rows],
        "bradley_terry": [strength for _, _, strength in rows],
        "votes": [evaluation.votes for evaluation, _, _ in rows],
    }


def judged_patches(book: Book) -> dict[str, list[Vote]]:
    """Return question -> its votes for the questions about patches that have the planned votes."""
    groups: dict[str, list[Vote]] = defaultdict(list)
    for vote in book.counted():
        if not vote.decoy:
            groups[vote.key].append(vote)
    return {key: group for key, group in sorted(groups.items()) if len(group) >= book.planned}


def write_bapps(out: Path, book: Book) -> int:
    """Write judged patches in the layout of BAPPS, which ``bapps:FOLDER`` reads; return how many were written.

    Forced choices: 2afc/val/FAMILY/{ref,p0,p1}/*.png and judge/*.npy, the share that found p1 nearer. Just noticeable
    differences: jnd/val/FAMILY/{p0,p1}/*.png and same/*.npy. A table patches.csv names the photograph of each patch and
    the number of people who were asked. Only questions with the planned votes are taken.
    """
    kind = book.about("kind")
    if kind not in BAPPS:
        raise UsageError(f"the file asks for {kind!r}; patches are judged with --kind 2afc and --kind jnd.")
    folders, share_folder, counted_answer = BAPPS[kind]
    judged, listed = judged_patches(book), []
    for number, (key, votes) in enumerate(judged.items()):
        family = out / kind / "val" / votes[0].facts["family"]
        pictures = [picture for picture in book.pictures(key) if picture is not None]
        for folder, picture in zip(folders, pictures, strict=True):
            (family / folder).mkdir(parents=True, exist_ok=True)
            (family / folder / f"{number:06d}.png").write_bytes(picture)
        (family / share_folder).mkdir(parents=True, exist_ok=True)
        share = np.mean([vote.answer == counted_answer for vote in votes])
        np.save(family / share_folder / f"{number:06d}.npy", np.array([share], dtype=np.float32))
        listed.append(
            (f"{family.name}/{number:06d}", votes[0].facts.get("photograph", votes[0].facts["name"]), len(votes))
        )
    if listed:
        with (out / kind / "val" / "patches.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("patch", "photograph", "judges"), *listed])
    return len(judged)


def write_csv(file: Path, votes: Sequence[Vote]) -> None:
    """Write every vote as one line."""
    with file.open("w", encoding="utf-8", newline="") as out:
        lines = csv.writer(out)
        lines.writerow([*FACTS, "truth", "decoy", "annotator", "answer", "at"])
        for v in votes:
            facts = [v.facts.get(fact, "") for fact in FACTS]
            lines.writerow([*facts, v.truth, int(v.decoy), v.annotator, v.answer, v.at])

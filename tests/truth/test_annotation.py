"""Simulated people judge reconstructions whose chance to be recognised is known."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from imharness.cli import cli
from imharness.data import ImageSet
from imharness_annotation.book import Book, Question
from imharness_annotation.sources import pair_questions

ORIGINALS, PLANNED = 12, 5
RECOGNISABLE = {"none": 0.95, "noise": 0.1, "pruning": 0.1}
"""Defense -> the chance that an attentive person says that a reconstruction shows the original."""


def private() -> ImageSet:
    """Return the originals: random images of 8 x 8 px with five labels."""
    pixels = torch.rand(ORIGINALS, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    names = tuple(f"n{i}" for i in range(ORIGINALS))
    columns = {"label": np.arange(ORIGINALS) % 5}
    return ImageSet(names, ((8, 8),) * ORIGINALS, lambda positions: pixels[list(positions)], columns)


def asked(file: Path, attack: str = "a") -> tuple[Book, dict[int, Question]]:
    """Return a book with questions about three defenses in a file, and its questions by number.

    The name of the attack is part of each question; other names give other decoys.
    """
    images, book = private(), Book(file)
    pixels = images.load(list(range(ORIGINALS))).mul(255).byte().numpy()
    groups = [({"dataset": "d", "attack": attack, "model": "m", "defense": g}, pixels, images) for g in RECOGNISABLE]
    questions = list(pair_questions(groups))
    book.fill("pair", PLANNED, questions)
    return book, dict(enumerate(questions, start=1))


def judge(book: Book, questions: dict[int, Question], name: str, rng: np.random.Generator, *, attentive: bool) -> None:
    """Answer questions until none is left; a person who is not attentive answers "same" to all."""
    while (following := book.following(name)) is not None:
        question = questions[following.id]
        same = question.truth == "same" if question.decoy else rng.random() < RECOGNISABLE[question.facts["defense"]]
        book.vote(following.id, name, "same" if same or not attentive else "different")


def reported(file: Path) -> dict[str, object]:
    result = CliRunner().invoke(cli, ["annotate", "report", "--json", "--file", str(file)])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_verdict_waits_for_the_planned_votes(tmp_path: Path) -> None:
    book, questions = asked(tmp_path / "a.sqlite")
    judge(book, questions, "only one", np.random.default_rng(0), attentive=True)
    counts = reported(tmp_path / "a.sqlite")
    assert counts["votes"] > 0
    assert (counts["judged"], counts["recognised"]) == (0, 0)
    assert counts["waiting"] == ORIGINALS * len(RECOGNISABLE)


@pytest.mark.parametrize("attack", "abce")
def test_people_who_fail_the_decoys_do_not_turn_verdicts(tmp_path: Path, attack: str) -> None:
    (book, questions), rng = asked(tmp_path / "a.sqlite", attack), np.random.default_rng(0)
    for number in range(40):
        judge(book, questions, f"p{number:02d}", rng, attentive=number % 3 > 0)
    counts = reported(tmp_path / "a.sqlite")
    assert counts["judged"] == ORIGINALS * len(RECOGNISABLE)
    assert abs(counts["recognised"] - ORIGINALS) <= 1  # those without a defense, one for each original
    assert book.left_out() == {vote.annotator for vote in book.votes() if int(vote.annotator[1:]) % 3 == 0}


@pytest.mark.parametrize("attack", "abc")
def test_everybody_answers_two_decoys_of_each_truth_first(tmp_path: Path, attack: str) -> None:
    (book, questions), rng = asked(tmp_path / "a.sqlite", attack), np.random.default_rng(0)
    for number in range(10):
        judge(book, questions, f"p{number}", rng, attentive=True)
    for person in {vote.annotator for vote in book.votes()}:
        first = [vote for vote in book.votes() if vote.annotator == person][:4]
        assert all(vote.decoy for vote in first)
        assert sorted(vote.truth for vote in first) == ["different", "different", "same", "same"]


def test_votes_without_decoys_of_both_truths_do_not_count_yet(tmp_path: Path) -> None:
    book, questions = asked(tmp_path / "a.sqlite")
    real = next(number for number, question in questions.items() if not question.decoy)
    book.vote(real, "p", "same")
    assert book.left_out() == {"p"}
    for truth in ("same", "different"):
        book.vote(next(n for n, q in questions.items() if q.decoy and q.truth == truth), "p", truth)
        assert book.left_out() == ({"p"} if truth == "same" else set())


def test_nobody_sees_two_reconstructions_of_one_original(tmp_path: Path) -> None:
    (book, questions), rng = asked(tmp_path / "a.sqlite"), np.random.default_rng(0)
    for number in range(4):
        judge(book, questions, f"p{number}", rng, attentive=True)
    for person in {vote.annotator for vote in book.votes()}:
        names = [vote.facts["name"] for vote in book.votes() if vote.annotator == person and not vote.decoy]
        assert len(names) == len(set(names)) == ORIGINALS

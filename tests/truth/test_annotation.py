"""Simulated people judge reconstructions whose recognisability is known."""

import json
from pathlib import Path

import numpy as np
import torch
from click.testing import CliRunner

from imharness.data import ImageSet
from imharness_annotation.book import Book, Question
from imharness_annotation.sources import pair_questions
from imharness_cli import cli

ORIGINALS, PLANNED = 12, 5
RECOGNISABLE = {"none": 0.95, "noise": 0.1, "pruning": 0.1}
"""Defense -> the chance that an attentive person says that a reconstruction shows the original."""


def private() -> ImageSet:
    pixels = torch.rand(ORIGINALS, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    names = tuple(f"n{i}" for i in range(ORIGINALS))
    columns = {"label": np.arange(ORIGINALS) % 5}
    return ImageSet(names, ((8, 8),) * ORIGINALS, lambda positions: pixels[list(positions)], columns)


def asked(file: Path) -> tuple[Book, dict[int, Question]]:
    """Return a file of questions about three defenses, and its questions by number."""
    images, book = private(), Book(file)
    pixels = images.load(list(range(ORIGINALS))).mul(255).byte().numpy()
    groups = [({"dataset": "d", "attack": "a", "model": "m", "defense": g}, pixels, images) for g in RECOGNISABLE]
    questions = list(pair_questions(groups))
    book.fill("pair", PLANNED, questions)
    return book, dict(enumerate(questions, start=1))


def judge(book: Book, questions: dict[int, Question], name: str, rng: np.random.Generator, *, attentive: bool) -> None:
    """Answer until nothing is left; who is not attentive says "same" to everything."""
    while (following := book.following(name)) is not None:
        asked = questions[following.id]
        same = asked.truth == "same" if asked.decoy else rng.random() < RECOGNISABLE[asked.facts["defense"]]
        book.vote(following.id, name, "same" if same or not attentive else "different")


def reported(file: Path) -> dict[str, object]:
    found = CliRunner().invoke(cli, ["annotate", "report", "--json", "--file", str(file)])
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def test_a_verdict_waits_for_the_planned_votes(tmp_path: Path) -> None:
    book, questions = asked(tmp_path / "a.sqlite")
    judge(book, questions, "only one", np.random.default_rng(0), attentive=True)
    found = reported(tmp_path / "a.sqlite")
    assert found["votes"] > 0
    assert (found["judged"], found["recognised"]) == (0, 0)
    assert found["waiting"] > 0


def test_people_who_fail_the_decoys_do_not_turn_verdicts(tmp_path: Path) -> None:
    (book, questions), rng = asked(tmp_path / "a.sqlite"), np.random.default_rng(0)
    for number in range(40):
        judge(book, questions, f"p{number:02d}", rng, attentive=number % 3 > 0)
    found = reported(tmp_path / "a.sqlite")
    assert found["judged"] == ORIGINALS * len(RECOGNISABLE)
    assert abs(found["recognised"] - ORIGINALS) <= 3
    assert found["people_left_out"] > 0


def test_nobody_sees_two_reconstructions_of_one_original(tmp_path: Path) -> None:
    (book, questions), rng = asked(tmp_path / "a.sqlite"), np.random.default_rng(0)
    for number in range(4):
        judge(book, questions, f"p{number}", rng, attentive=True)
    for person in {vote.annotator for vote in book.votes()}:
        names = [vote.facts["name"] for vote in book.votes() if vote.annotator == person]
        assert len(names) > ORIGINALS / 2
        assert len(set(names)) == len(names)

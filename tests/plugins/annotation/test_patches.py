"""Forced choices and just noticeable differences are collected as in section 2.2 of the LPIPS paper."""

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness_annotation import CUTOFFS
from imharness_annotation.book import Book, Question
from imharness_annotation.patches import nearer_questions, noticeable_questions


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return installed().one("dataset", "thumbnails[size=72,per_photograph=1]").build(torch.device("cpu"))


def pixels(picture: bytes | None) -> np.ndarray:
    assert picture is not None
    return np.asarray(Image.open(io.BytesIO(picture))).astype(float)


def filled(
    file: Path, kind: str, questions: list[Question], votes: int, each: int = 0
) -> tuple[Book, dict[int, Question]]:
    book = Book(file)
    book.fill(kind, votes, questions, CUTOFFS[kind], each)
    return book, dict(enumerate(questions, start=1))


def test_just_noticeable_differences_are_asked_as_published(images: ImageSet, tmp_path: Path) -> None:
    """A subject sees 10 pairs for training (4 same, 1 obvious, 5 not), then 160 pairs and 40 sentinels, 32 the same."""
    questions = list(noticeable_questions(images, 200))
    book, by_number = filled(tmp_path / "j.sqlite", "jnd", questions, 3, each=160)
    seen = []
    while (following := book.following("Ann")) is not None:
        seen.append(by_number[following.id])
        book.vote(following.id, "Ann", seen[-1].truth)
    assert all(q.training for q in seen[:10])
    assert Counter(q.truth for q in seen[:10]) == {"same": 4, "different": 6}
    assert [q.facts["right"] for q in seen[:10]].count("noise") == 1
    rest = seen[10:]
    assert not any(q.training for q in rest)
    assert Counter((q.decoy, q.truth) for q in rest) == {
        (False, "different"): 160,
        (True, "same"): 32,
        (True, "different"): 8,
    }
    half = [q.decoy for q in rest[4:102]]
    assert 8 < sum(half) < 30  # sentinels are spread among the pairs
    assert book.left_out() == frozenset()
    assert not any(vote.training for vote in book.counted())
    for question in questions:
        left_pixels, right = pixels(question.left), pixels(question.right)
        assert left_pixels.shape == right.shape == (64, 64, 3)
        assert (left_pixels == right).all() == (question.truth == "same") or not question.decoy


def test_who_always_says_same_is_left_out(images: ImageSet, tmp_path: Path) -> None:
    questions = list(noticeable_questions(images, 12))
    book, _ = filled(tmp_path / "j.sqlite", "jnd", questions, 1, each=160)
    while (following := book.following("Bob")) is not None:
        book.vote(following.id, "Bob", "same")
    assert book.left_out() == {"Bob"}
    assert book.counted() == []


def test_sentinels_of_forced_choices_have_little_and_much_noise(images: ImageSet, tmp_path: Path) -> None:
    questions = list(nearer_questions(images, 30))
    sentinels = [q for q in questions if q.decoy]
    assert len(sentinels) == 15
    assert {q.truth for q in sentinels} == {"left", "right"}
    for question in sentinels:
        away = {
            side: np.square(pixels(getattr(question, side)) - pixels(question.reference)).mean()
            for side in ("left", "right")
        }
        assert min(away, key=lambda side: away[side]) == question.truth
    assert all(q.truth == "" for q in questions if not q.decoy)
    book, by_number = filled(tmp_path / "n.sqlite", "2afc", questions, 1)
    for person, wrong in (("Ann", 1), ("Bob", 2)):  # 14 of 15 passes, 13 does not
        for number, question in by_number.items():
            if question.decoy:
                other = {"left": "right", "right": "left"}[question.truth]
                book.vote(number, person, other if wrong > 0 else question.truth)
                wrong -= 1
    assert book.left_out() == {"Bob"}


@pytest.mark.parametrize("kind", ["2afc", "jnd"])
def test_judged_patches_are_read_as_bapps(images: ImageSet, tmp_path: Path, kind: str) -> None:
    make = {"2afc": nearer_questions, "jnd": noticeable_questions}[kind]
    questions = list(make(images, 6))
    book, by_number = filled(tmp_path / "b.sqlite", kind, questions, 4)
    usual_answer = {"2afc": "right", "jnd": "same"}[kind]
    for person in range(4):
        while (following := book.following(f"p{person}")) is not None:
            current = by_number[following.id]
            other = {"right": "left", "same": "different"}[usual_answer]
            book.vote(
                following.id,
                f"p{person}",
                current.truth if current.decoy or current.training else (other if person else usual_answer),
            )
    out = CliRunner().invoke(
        cli, ["annotate", "bapps", "--file", str(tmp_path / "b.sqlite"), "--out", str(tmp_path / "made")]
    )
    assert out.exit_code == 0, out.output
    assert "6 judged pairs" in out.output
    report = CliRunner().invoke(cli, ["annotate", "report", "--json", "--file", str(tmp_path / "b.sqlite")])
    facts = json.loads(report.output)
    assert (facts["judged"], facts["waiting"]) == (6, 0)
    assert not {"recognised", "recognised_kappa"} & facts.keys()
    read = installed().one("dataset", f"harness/bapps[path={tmp_path / 'made'},test={kind}]").build(torch.device("cpu"))
    column = {"2afc": "judge", "jnd": "same"}[kind]
    shares = read.columns[column][~np.isnan(read.columns[column])]
    np.testing.assert_allclose(shares, 0.25)
    judged = {q.key: q for q in questions if not q.decoy and not q.training}
    first = read.load([0])[0].mul(255).round().numpy().transpose(1, 2, 0)
    question = judged[min(judged)]
    np.testing.assert_array_equal(first, pixels(question.reference if kind == "2afc" else question.left))


def test_patches_need_a_data_set(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["annotate", "--kind", "jnd", "--file", str(tmp_path / "x.sqlite")])
    assert result.exit_code == 2
    assert "add --dataset NAME" in result.output

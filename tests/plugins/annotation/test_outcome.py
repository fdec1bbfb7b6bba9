"""Questions that people get, and what follows from their votes: kappas, majorities, rankings, tables."""

import contextlib
import csv
import io
import itertools
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from click.testing import CliRunner
from PIL import Image
from tests.leaderboard.browsing import words_of

from imharness.cli import cli
from imharness.commands import device_of, find, finished
from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.leaderboard import NotTestable
from imharness_annotation import Wanted
from imharness_annotation.book import Book, Question, Vote
from imharness_annotation.outcome import decoy_accuracy, fleiss_kappa, majorities, ranking, write_csv
from imharness_annotation.sources import NONE, ORIGINAL, better_questions, class_questions, pair_questions, png
from imharness_reconstruction.recognition import JUDGE

TRACK = "harness/reconstruction"
FACTS = {"dataset": "d", "attack": "a", "model": "m", "defense": "g"}


def image_set(count: int, classes: int) -> ImageSet:
    pixels = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    names = tuple(f"n{i}" for i in range(count))
    columns = {"label": np.arange(count) % classes, "class": np.array([f"c{i % classes:02d}" for i in range(count)])}
    return ImageSet(names, ((8, 8),) * count, lambda positions: pixels[list(positions)], columns)


def vote(key: str, annotator: str, answer: str, truth: str = "yes", decoy: bool = False, **facts: str) -> Vote:
    return Vote(key, facts, truth, decoy, annotator, answer, "")


def test_class_questions_hold_the_truth_among_twenty_and_none() -> None:
    images = np.zeros((60, 3, 8, 8), dtype=np.uint8)
    questions = list(class_questions([(FACTS, images, image_set(60, 30))]))
    assert len({q.key for q in questions}) == 60
    for question in questions:
        assert len(question.choices) == 21
        assert question.truth in question.choices
        assert question.choices[-1] == NONE
        assert list(question.choices[:-1]) == sorted(question.choices[:-1])
    assert [q.choices for q in questions] == [q.choices for q in class_questions([(FACTS, images, image_set(60, 30))])]


def test_people_who_name_originals_decide_what_is_right() -> None:
    """Section 4.1 of SemSim compares answers about an image and its reconstruction; two answers `NONE` do not agree."""
    private, images = image_set(4, 4), np.zeros((4, 3, 8, 8), dtype=np.uint8)
    likely = {"d": {f"n{i}": [f"c{(i + k) % 4:02d}" for k in (1, 0, 2, 3)] for i in range(4)}}
    questions = list(
        class_questions([(FACTS, images, private), ({**FACTS, "defense": "h"}, images, private)], likely=likely)
    )
    originals = [q for q in questions if q.facts["defense"] == ORIGINAL]
    assert len(questions) == 4 + 2 * 4
    assert {q.facts["name"] for q in originals} == {"n0", "n1", "n2", "n3"}
    assert all(q.truth == "" for q in originals)
    named = {"n0": "c00", "n1": "c02", "n2": NONE, "n3": "c03"}  # for n1 people name another class than its label
    votes = [vote(q.key, p, named[q.facts["name"]], "", **q.facts) for q in originals for p in "abc"]
    rebuilt = [q for q in questions if q.facts["defense"] == "g"]
    votes += [vote(q.key, p, named[q.facts["name"]], q.truth, **q.facts) for q in rebuilt for p in "de"]
    votes += [vote(q.key, "f", "c01", q.truth, **q.facts) for q in rebuilt]
    recognised = {v.facts["name"]: v.recognised for v in majorities(votes, 3)}
    assert recognised == {"n0": True, "n1": True, "n2": False, "n3": True}
    early = [v for v in votes if v.facts["defense"] != ORIGINAL or v.annotator != "a"]
    assert majorities(early, 3) == []


def test_likely_classes_are_offered_with_the_true_one() -> None:
    images, private = np.zeros((60, 3, 8, 8), dtype=np.uint8), image_set(60, 30)
    order = [f"c{k:02d}" for k in range(30)]
    likely = {"d": dict.fromkeys(private.names, order)}
    for question in class_questions([(FACTS, images, private)], likely=likely):
        true = f"c{int(question.facts['name'][1:]) % 30:02d}"
        offered = set(question.choices) - {NONE}
        assert offered == {*[c for c in order if c != true][:19], true}


def test_pairs_hold_decoys_of_other_classes() -> None:
    private = image_set(200, 5)
    images = private.load(list(range(200))).mul(255).byte().numpy()
    questions = list(pair_questions([(FACTS, images, private)]))
    decoys = [q for q in questions if q.decoy]
    assert len(questions) == 200 + len(decoys)
    assert 5 < len(decoys) < 40
    assert {q.truth for q in decoys} == {"different", "same"}
    for decoy in decoys:
        assert (decoy.left == decoy.right) == (decoy.truth == "same")
        assert (decoy.facts.get("shown") is None) == (decoy.truth == "same")


@pytest.mark.parametrize("count", [2, 6])
def test_few_pairs_have_two_decoys_of_each_truth(count: int) -> None:
    private = image_set(count, 2)
    images = private.load(list(range(count))).mul(255).byte().numpy()
    groups = [({**FACTS, "defense": defense}, images, private) for defense in "gh"]
    truths = [q.truth for q in pair_questions(groups) if q.decoy]
    assert sorted(truths) == ["different", "different", "same", "same"]


def test_verification_questions_have_both_sides_in_turn() -> None:
    clean = torch.rand(6, 3, 8, 8)
    questions = better_questions({"dataset": "d"}, {"a": clean, "b": clean}, clean, list("uvwxyz"))
    truths = [q.truth for q in questions if q.decoy]
    assert all(one != other for one, other in itertools.pairwise(truths))


def test_questions_without_decoys_are_said_to_have_none(tmp_path: Path) -> None:
    file = tmp_path / "b.sqlite"
    Book(file).fill("class", 2, [Question("q", FACTS, ("x", "y"), "x", False, None, b"png")])
    Book(file).vote(1, "Ann", "x")
    result = CliRunner().invoke(cli, ["annotate", "report", "--json", "--file", str(file)])
    facts = json.loads(result.output)
    assert facts["needed_to_count"] == "nothing, there are no decoys"
    assert (facts["people_left_out"], facts["votes_counted"], facts["waiting"]) == (0, 1, 1)


def test_each_kappa_has_its_own_number_of_questions(tmp_path: Path) -> None:
    """Questions about originals have no right answer, so only the kappa of the answers themselves counts them."""
    file = tmp_path / "b.sqlite"
    questions = [
        Question(f"q{i}", {**FACTS, "name": f"q{i}"}, ("x", "y"), truth, False, None, b"png")
        for i, truth in enumerate(("x", "y", ""))
    ]
    book = Book(file)
    book.fill("class", 2, questions)
    for number, (one, other) in enumerate((("x", "x"), ("x", "y"), ("y", "y")), 1):
        book.vote(number, "Ann", one)
        book.vote(number, "Bob", other)
    result = CliRunner().invoke(cli, ["annotate", "report", "--json", "--file", str(file)])
    facts = json.loads(result.output)
    assert (facts["kappa_questions"], facts["recognised_kappa_questions"]) == (3, 2)


def test_better_asks_every_pair_and_verifies() -> None:
    clean = torch.rand(3, 3, 8, 8)
    defended = {label: clean * share for label, share in (("a", 1.0), ("b", 0.9), ("c", 0.5))}
    questions = list(better_questions({"dataset": "d"}, defended, clean, ["x", "y", "z"]))
    assert len(questions) == 3 * 3 + 3
    sides = {frozenset((q.facts["left"], q.facts["right"])) for q in questions if not q.decoy}
    assert sides == {frozenset("ab"), frozenset("ac"), frozenset("bc")}


def test_kappa_is_that_of_the_published_example() -> None:
    """The example of the article on Wikipedia: ten subjects, fourteen raters, five categories."""
    table = (
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    )  # fmt: skip
    answers = [[str(k) for k, count in enumerate(row) for _ in range(count)] for row in table]
    votes = [vote(f"q{i}", f"p{j}", answer) for i, row in enumerate(answers) for j, answer in enumerate(row)]
    kappa, questions, raters = fleiss_kappa([*votes, vote("q99", "p0", "1")])
    assert kappa == pytest.approx(0.20993, abs=1e-5)
    assert (questions, raters) == (10, 14)
    with pytest.raises(NotTestable, match="the same answer"):
        fleiss_kappa([vote("q", "a", "x"), vote("q", "b", "x")])
    with pytest.raises(NotTestable, match="two votes"):
        fleiss_kappa([vote("q", "a", "x")])


def test_majorities_need_the_planned_votes_and_more_than_half_and_leave_decoys_out() -> None:
    votes = [
        *(vote("one", p, a) for p, a in zip("abc", ("yes", "yes", "no"), strict=True)),
        *(vote("tie", p, a) for p, a in zip("ab", ("yes", "no"), strict=True)),
        vote("early", "a", "yes"),
        vote("decoy", "a", "yes", "no", True),
    ]
    assert [(v.recognised, v.votes) for v in majorities(votes, 2)] == [(True, 3), (False, 2)]
    assert [v.votes for v in majorities(votes, 3)] == [3]
    assert decoy_accuracy(votes) == {"a": (0, 1), "b": (0, 0), "c": (0, 0)}


def test_kappa_of_recognised_or_not_forgives_different_wrong_answers() -> None:
    answers = {"q1": ("yes", "yes", "yes"), "q2": ("no", "maybe", "never"), "q3": ("maybe", "no", "often")}
    votes = [vote(q, p, a) for q, replies in answers.items() for p, a in zip("abc", replies, strict=True)]
    assert fleiss_kappa(votes, recognised=True)[0] == pytest.approx(1)
    assert fleiss_kappa(votes)[0] < 0.5
    with pytest.raises(NotTestable, match="two votes"):
        fleiss_kappa([vote("q", p, "left", "") for p in "ab"], recognised=True)


def judged_pairs(rng: np.random.Generator, images: int, votes: int) -> list[Vote]:
    """Return so many votes on each pair of "a", "b" and "c" for each image, drawn by Bradley-Terry strengths."""
    strength = {"a": 2.0, "b": 1.0, "c": 0.0}
    judged_votes = []
    for image, (one, other), number in itertools.product(range(images), itertools.combinations("abc", 2), range(votes)):
        left_name, right = (one, other) if rng.random() < 0.5 else (other, one)
        wins = rng.random() < 1 / (1 + np.exp(strength[right] - strength[left_name]))
        key, facts = f"{image} {one} {other}", {"name": f"n{image}", "left": left_name, "right": right}
        judged_votes.append(vote(key, f"p{number}", "left" if wins else "right", "", **facts))
    return judged_votes


def test_the_ranking_gives_the_strengths_that_votes_were_drawn_from() -> None:
    strengths = ranking(judged_pairs(np.random.default_rng(0), 100, 10), 10)
    assert [name for name, _ in strengths] == ["a", "b", "c"]
    assert all(estimate.n == 100 for _, estimate in strengths)
    for (_, strength_estimate), strength in zip(strengths, (1.0, 0.0, -1.0), strict=True):  # their mean is 0
        assert strength_estimate.value == pytest.approx(strength, abs=0.12)
        assert strength_estimate.low < strength_estimate.value < strength_estimate.high


def test_evaluations_of_one_image_do_not_narrow_the_interval_of_the_ranking() -> None:
    votes = judged_pairs(np.random.default_rng(0), 20, 10)
    repeated = [replace(v, facts={**v.facts, "attack": attack}) for v in votes for attack in ("x", "y", "z")]
    for (name, once), (same_name, thrice) in zip(ranking(votes, 10), ranking(repeated, 10), strict=True):
        assert name == same_name
        assert (thrice.n, thrice.clusters) == (60, 20)
        assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_the_ranking_waits_until_an_image_has_all_its_votes() -> None:
    votes = judged_pairs(np.random.default_rng(0), 3, 4)
    with pytest.raises(NotTestable, match="no image has 5 votes"):
        ranking(votes, 5)
    assert {estimate.n for _, estimate in ranking(votes[:-1], 4)} == {2}
    with pytest.raises(NotTestable):
        ranking([], 1)


def test_votes_needed_and_orders_differ_between_people(tmp_path: Path) -> None:
    book = Book(tmp_path / "b.sqlite")
    questions = [Question(f"q{i}", FACTS, ("x", "y"), "x", False, None, b"png") for i in range(12)]
    book.fill("class", 1, questions)
    first = {name: book.following(name) for name in ("Ann", "Bob", "Cleo", "Dan")}
    assert len({first_question.id for first_question in first.values() if first_question}) > 1
    for _ in range(12):
        question = book.following("Ann")
        assert question is not None
        book.vote(question.id, "Ann", "x")
    assert book.following("Bob") is None
    assert book.fill("class", 1, questions) == 12
    write_csv(tmp_path / "v.csv", book.votes())
    with (tmp_path / "v.csv").open() as file:
        assert [line["annotator"] for line in csv.DictReader(file)] == ["Ann"] * 12


@pytest.mark.parametrize("content", [b"no database at all, only text " * 50, b""])
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "b.sqlite"
    file.write_bytes(content)
    result = CliRunner().invoke(cli, ["annotate", "report", "--file", str(file)])
    if content:
        assert "cannot be used" in str(result.exception)
    else:
        assert result.exit_code == 0


def test_people_replace_the_proxy_in_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight steps rebuild nothing, so no metric would be judged; the check for that is replaced."""
    monkeypatch.setattr("imharness_reconstruction.tables.uncontrolled", lambda scores, guesses: "")
    store, site = tmp_path / "store", tmp_path / "site"
    words = ["--dataset", "thumbnails[size=16,per_photograph=1]", "--model", "untrained", "--limit", "4"]
    attack = ["--attack", "invgrad[steps=8]", "--metric", "psnr", "--metric", "mse"]
    run = ["run", "--track", "reconstruction", *words, *attack]
    result = CliRunner().invoke(cli, [*run, "--workers", "0", "--store", str(store), "--site", str(site)])
    assert result.exit_code == 0, result.output
    page = site / "reconstruction.html"
    assert f"Stand-in data, do not cite: {JUDGE}" in words_of(page.read_text())
    from imharness_annotation.asking import questions_for

    file = tmp_path / "a.sqlite"
    likely = [q for q in questions_for("class", str(store), Wanted((), ()), True) if q.truth]
    ten = len(set(find("dataset", likely[0].facts["dataset"]).build(device_of("cpu")).columns["label"]))
    assert all(len(q.choices) == min(20, ten) + 1 and q.truth in q.choices for q in likely)
    book = Book(file)
    count = book.fill("class", 1, questions_for("class", str(store), Wanted((), ())))
    assert count == 40
    for number in range(count // 4):  # one of the reconstructions of each of four originals
        while (question := book.following(f"p{number}")) is not None:
            book.vote(question.id, f"p{number}", question.choices[number % 2])
    assert len(book.votes()) == count
    imported = CliRunner().invoke(
        cli, ["annotate", "import", "--file", str(file), "--store", str(store), "--site", str(site)]
    )
    assert imported.exit_code == 0, imported.output
    leaderboard = json.loads(next((store / "leaderboards").glob("*reconstruction*.json")).read_text())
    agreement = next(t for t in leaderboard["tables"] if t["id"] == "agreement")
    assert "people" in agreement["caption"]
    assert "proxy" not in agreement["caption"]
    assert JUDGE not in page.read_text()
    share = {}
    for vote in book.votes():  # every question has one vote, and is no decoy
        entry = f"{vote.facts['model']} + {vote.facts['defense']}"
        share.setdefault(entry, []).append(vote.answer == vote.truth)
    rows = {row["label"]: row["values"] for row in agreement["rows"]}
    judge = rows["classifier/top-1"]
    answers = {
        record.labels["defense"]: record.output.rows["recognised"] for record in finished(store, TRACK, "recognise")
    }
    by_judge = [answers[entry.partition(" + ")[2]].mean() for entry in share]
    expected = scipy.stats.kendalltau(by_judge, [np.mean(values) for values in share.values()]).statistic
    (tau,) = (value for key, value in judge.items() if key.endswith(" tau"))
    assert tau.get("value") == (None if np.isnan(expected) else pytest.approx(expected))
    main = next(t for t in leaderboard["tables"] if t["id"].startswith("models"))
    assert not any("top-1" in column["key"] for column in main["columns"])
    (tmp_path / "theirs").mkdir()
    theirs = Book(tmp_path / "theirs" / file.name)
    theirs.fill("class", 1, questions_for("class", str(store), Wanted((), ())))
    for number in range(count // 4):
        while (question := theirs.following(f"q{number}")) is not None:
            theirs.vote(question.id, f"q{number}", question.choices[0])
    words = ["annotate", "import", "--file", str(tmp_path / "theirs" / file.name), "--store", str(store)]
    refused = CliRunner().invoke(cli, [*words, "--site", str(site)])
    assert "other rows that were imported from a file a; give --replace" in str(refused.exception)
    other, run = tmp_path / "other", [*run, "--seed", "1"]
    result = CliRunner().invoke(cli, [*run, "--workers", "0", "--store", str(other), "--site", str(site)])
    assert result.exit_code == 0, result.output
    imported = CliRunner().invoke(
        cli, ["annotate", "import", "--file", str(file), "--store", str(other), "--site", str(site)]
    )
    assert "40 of 40 verdicts are about images that the latest run of" in str(imported.exception)
    with pytest.raises(UsageError, match="asks about other images of"):
        book.fill("class", 1, questions_for("class", str(other), Wanted((), ())))
    assert book.fill("class", 1, questions_for("class", str(store), Wanted((), ()))) == count
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        (spoilt,) = db.execute("SELECT right_png FROM items WHERE id = 1").fetchone()
        db.execute(
            "UPDATE items SET right_png = ? WHERE id = 1",
            (png(255 - np.asarray(Image.open(io.BytesIO(spoilt))).transpose(2, 0, 1)),),
        )
    again = CliRunner().invoke(
        cli, ["annotate", "import", "--file", str(file), "--store", str(store), "--site", str(site)]
    )
    assert "1 of 40 verdicts are about images that the latest run of" in " ".join(again.output.split())
    assert "39 majorities are in the tables" in again.output
    result = CliRunner().invoke(cli, [*run, "--workers", "0", "--store", str(store), "--site", str(site)])
    assert result.exit_code == 0, result.output
    leaderboard = json.loads(next((store / "leaderboards").glob("*reconstruction*.json")).read_text())
    assert [gap["reason"] for gap in leaderboard["missing"] if gap["what"] == "imported rows of a"] == [
        "they are about results that this run does not have"
    ]
    assert JUDGE in page.read_text()

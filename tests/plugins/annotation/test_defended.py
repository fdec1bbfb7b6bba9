"""The subjective study of defenses: whose images are shown, and how votes reach the leaderboard beside D."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from click.testing import CliRunner
from PIL import Image
from tests.conftest import without_site

from imharness.cli import cli
from imharness.commands import device_of, find, finished, query
from imharness.errors import UsageError
from imharness_annotation import Wanted
from imharness_annotation.book import Book
from imharness_annotation.command import VOTES
from imharness_annotation.defended import questions
from imharness_annotation.outcome import evaluations
from imharness_annotation.sources import better_questions

IQA = "harness/iqa"
DEFENSES = ("none", "gaussian-blur", "flip", "jpeg")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a run of one attack on one metric behind four defenses; it has no knowledge of JPEG."""
    root = tmp_path_factory.mktemp("iqa")
    profile = root / "small.toml"
    names = ", ".join(f'"{name}"' for name in DEFENSES)
    profile.write_text(
        'name = "small"\ndescription = "A small run."\n[tracks."harness/iqa"]\n'
        'select = { dataset = ["severity-ladder[per_photograph=2,size=32]"], metric = ["embedded-cnn"], '
        f'attack = ["ifgsm"], defense = [{names}] }}\n'
        'options = { strengths = ["medium", "strong"], adaptive_defenses = ["*", "!harness/jpeg"] }\n'
    )
    words = ["run", "--track", "iqa", "--profile", str(profile), "--limit", "4", "--workers", "0"]
    with without_site():
        result = CliRunner().invoke(cli, [*words, "--store", str(root / "store"), "--site", str(root / "site")])
    assert result.exit_code == 0, result.output
    return root / "store"


def pixels(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture))).transpose(2, 0, 1)


def test_each_defense_is_shown_what_an_attack_that_knows_it_made(store: Path) -> None:
    questions_asked = list(questions(str(store), Wanted(("ifgsm",), ("none", "flip", "gaussian-blur"), limit=2)))
    real = [q for q in questions_asked if not q.decoy]
    assert len(real) == 2 * 3
    assert {(q.facts["strength"], q.facts["attacker"]) for q in real} == {("strong", "adaptive")}
    attacked_images = {
        task.labels.get("defense", ""): next(iter(task.output.arrays.values()))
        for task in finished(store, IQA, "attack")
        if task.options["strength"] == "strong"
    }
    dataset = real[0].facts["dataset"]
    names = list(find("dataset", dataset).build(device_of("cpu")).names)
    for question in real:
        at = names.index(question.facts["name"])
        sides = {question.facts[side]: pixels(getattr(question, side)) for side in ("left", "right")}
        if "harness/none" in sides:
            np.testing.assert_array_equal(sides["harness/none"], attacked_images[""][at])
        if "harness/flip" in sides:
            np.testing.assert_array_equal(sides["harness/flip"], attacked_images["harness/flip"][at][:, ::-1, ::-1])
            assert (attacked_images["harness/flip"][at] != attacked_images[""][at]).any()
        clean = find("dataset", dataset).build(device_of("cpu")).load([at])[0]
        np.testing.assert_array_equal(pixels(question.reference), clean.mul(255).round().numpy())


def test_fixed_attackers_and_strengths_are_asked_for_by_name(store: Path) -> None:
    wanted = Wanted(("ifgsm",), ("none", "flip"), strength="medium", attacker="fixed", limit=1)
    (question,) = (q for q in questions(str(store), wanted) if not q.decoy)
    assert (question.facts["strength"], question.facts["attacker"]) == ("medium", "fixed")
    sides = {question.facts[side]: pixels(getattr(question, side)) for side in ("left", "right")}
    np.testing.assert_array_equal(sides["harness/flip"], sides["harness/none"][:, ::-1, ::-1])


def test_a_run_without_adaptive_images_says_so(store: Path) -> None:
    with pytest.raises(UsageError, match=r"with knowledge of harness/jpeg; .*--attacker fixed"):
        list(questions(str(store), Wanted(("ifgsm",), ("none", "jpeg"))))
    with pytest.raises(UsageError, match="no images of ifgsm at the strength weak"):
        list(questions(str(store), Wanted(("ifgsm",), ("none", "flip"), strength="weak")))


def test_an_evaluation_of_the_published_study_has_78_pairs() -> None:
    """Appendix A.2: 4 metrics, 5 attacks, 20 source images and 13 entries make 5,200 images in 400 evaluations."""
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    entries = {f"defense {k}": image for k in range(12 + 1)}
    pairs = [q for q in better_questions({"dataset": "d"}, entries, image, ["x"]) if not q.decoy]
    assert len(pairs) == 78
    shown_images = {(q.facts["name"], q.facts[side]) for q in pairs for side in ("left", "right")}
    assert len(shown_images) * 4 * 5 * 20 == 5200
    assert len(pairs) * 4 * 5 * 20 * VOTES["better"] == 312_000  # the paper states 60,000 responses


def test_votes_become_scores_beside_d_on_the_leaderboard(store: Path, tmp_path: Path) -> None:
    file, site = tmp_path / "b.sqlite", tmp_path / "site"
    liked = {"harness/gaussian-blur": 2.0, "harness/flip": 1.0, "harness/none": 0.0}
    book, rng = Book(file), np.random.default_rng(0)
    all_questions = list(questions(str(store), Wanted(("ifgsm",), tuple(liked))))
    book.fill("better", 10, all_questions)
    by_number = dict(enumerate(all_questions, start=1))
    for person in range(10):
        while (following := book.following(f"p{person}")) is not None:
            current = by_number[following.id]
            chance = 1 / (1 + np.exp(liked.get(current.facts["right"], 0) - liked.get(current.facts["left"], 0)))
            book.vote(following.id, f"p{person}", current.truth or ("left" if rng.random() < chance else "right"))
    imported = CliRunner().invoke(
        cli, ["annotate", "import", "--file", str(file), "--store", str(store), "--site", str(site)]
    )
    assert imported.exit_code == 0, imported.output
    assert "4 evaluations are in the tables" in imported.output
    leaderboard = json.loads(next((store / "leaderboards").glob("*iqa*.json")).read_text())
    table = next(t for t in leaderboard["tables"] if t["id"] == "subjective")
    rows = {row["label"]: row["values"] for row in table["rows"]}
    assert [row["label"] for row in table["rows"]] == list(liked)
    expected = evaluations(book.counted(), 10)
    for name in liked:
        mean = np.mean([evaluation.strengths[name] for evaluation in expected])
        assert rows[name]["people"]["value"] == pytest.approx(mean)
    d = {}
    for task in finished(store, IQA, "evaluate"):
        current = task.labels["defense"]
        aware = current != "harness/none"
        if current in liked and task.options["strength"] == "strong" and task.options["adaptive"] == aware:
            d[current] = dict(zip(task.output.rows["name"], task.output.rows["score"], strict=True))
    clean = query(store, IQA)("SELECT name, score, upper - lower AS span FROM clean")
    clean_scores = {name: (score, span) for name, score, span in zip(*clean.values(), strict=True)}
    for defense, current in d.items():
        shifts = [abs(score - clean_scores[name][0]) / clean_scores[name][1] * 100 for name, score in current.items()]
        assert rows[defense]["d"]["value"] == pytest.approx(np.mean(shifts), rel=1e-3)
    order = [rows[name]["people"]["value"] for name in liked], [-rows[name]["d"]["value"] for name in liked]
    assert f"Spearman {scipy.stats.spearmanr(*order).statistic:.2f}" in table["caption"]
    assert "12 images in 4 evaluations" in table["caption"]
    assert any(table["title"] in page.read_text() for page in site.rglob("*.html"))
    ranked = next(t for t in leaderboard["tables"] if t["id"] == "defenses")
    assert {row["label"] for row in ranked["rows"]} == {f"harness/{name}" for name in DEFENSES}

"""Cheats ranked beside honest defenses do not win, and those that look images up are flagged on every split."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.blind import iqa_cheats as cheats
from tests.blind.leaderboards import ran
from tests.conftest import Harness

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_numbers
from imharness.results.store import Store
from imharness_leaderboard.leaderboards import against_secret, current_leaderboards
from imharness_leaderboard.scores import scores_of

HONEST = ("harness/gaussian-blur", "harness/jpeg", "harness/color-quantization", "harness/unsharp", "harness/flip")
PARTLY = cheats.NoisyGate(share=0.15)
LOOK_UPS = (cheats.LookUp(), cheats.LookUp(near=0.3), cheats.HalfTemplate(), PARTLY, cheats.StateFirst())
OTHERS = (cheats.InverseContrast(), cheats.ColourBins(), cheats.Rerater(), cheats.Detector(), cheats.OneUlp())
SEED = "b11d" * 16


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> tuple[Leaderboard, Path]:
    folder = tmp_path_factory.mktemp("public")
    return ran(folder, [*LOOK_UPS, *OTHERS], HONEST), folder


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> tuple[Leaderboard, Path]:
    folder = tmp_path_factory.mktemp("secret")
    return ran(folder, LOOK_UPS[:2], HONEST, SEED), folder


def looked_up(leaderboard: Leaderboard) -> set[str]:
    return {
        label for label, standing in leaderboard.rankings[0].places.items() if "a look-up" in " ".join(standing.flags)
    }


def test_no_cheat_wins_or_may_be_best(public: tuple[Leaderboard, Path]) -> None:
    (ranking,) = public[0].rankings
    assert not [label for label in (ranking.winner, *ranking.may_be_best) if label.startswith("acme/")]


def test_who_answers_with_pictures_of_its_own_is_named(public: tuple[Leaderboard, Path]) -> None:
    assert looked_up(public[0]) >= {cheat.label for cheat in LOOK_UPS}
    assert not looked_up(public[0]) & {"harness/none", *HONEST}


def test_a_look_up_of_public_photographs_is_named_on_a_secret_split(secret: tuple[Leaderboard, Path]) -> None:
    """A look-up has about a third of the photographs of that split, and leaves the other two thirds."""
    assert looked_up(secret[0]) == {cheat.label for cheat in LOOK_UPS[:2]}


def test_who_returns_nan_stands_in_the_tables_with_the_reason_and_each_failed_task_is_listed(
    public: tuple[Leaderboard, Path], harness_here: Harness, tmp_path: Path, no_site: None
) -> None:
    leaderboard, folder = public
    label = cheats.Detector().label
    for table in (candidate for candidate in leaderboard.tables if candidate.entry == "defense"):
        (row,) = (row for row in table.rows if row.label == label)
        if table.id == "ranking":
            assert all("NaN" in value.missing for value in row.values.values()), row
    listed = harness_here("results", "list", "--failed", "--store", str(folder), "--json", cwd=tmp_path)
    assert len(json.loads(listed.stdout)["records"]) == leaderboard.tasks_failed > 1
    listing = harness_here("results", "list", "--failed", "--store", str(folder), cwd=tmp_path)
    assert f"{leaderboard.tasks_failed} tasks" in listing.stdout
    one = harness_here("results", "list", "--failed", "--component", "detector", "--store", str(folder), cwd=tmp_path)
    assert f"{leaderboard.tasks_failed} tasks" in one.stdout


def test_a_look_up_does_worse_on_a_secret_split(
    public: tuple[Leaderboard, Path], secret: tuple[Leaderboard, Path]
) -> None:
    leaderboards = current_leaderboards(public[1])[0]
    scores = {
        leaderboard.track: scores_of(leaderboard, read_numbers(Store(public[1]), leaderboard))
        for leaderboard in leaderboards
    }
    (leaderboard,) = against_secret(leaderboards, scores, secret[1])
    worse = {
        label
        for label, standing in leaderboard.rankings[0].places.items()
        if "on a secret split" in " ".join(standing.flags)
    }
    assert worse == {LOOK_UPS[0].label}


def test_one_picture_of_many_for_each_image_keeps_no_order(secret: tuple[Leaderboard, Path]) -> None:
    """If it has no copy of an image it returns another one: no pairs are reversed, and no order is kept."""
    standing = secret[0].rankings[0].places[LOOK_UPS[1].label]
    assert not standing.able
    row = next(row for row in secret[0].tables[0].rows if row.label == LOOK_UPS[1].label)
    assert row.number("worst") < 1


def test_images_that_are_left_do_not_make_up_for_others_that_are_replaced(public: tuple[Leaderboard, Path]) -> None:
    gates = {gate.label: gate for gate in public[0].rankings[0].places[cheats.HalfTemplate().label].gate_numbers}
    fidelity = next(gate for label, gate in gates.items() if "SSIM" in label)
    assert fidelity.state in ("doubtful", "fails")
    assert fidelity.value is not None
    assert np.isclose(fidelity.value, 0.6 - 0.5 - 0.6 * 0.5, atol=0.15)


def test_imported_tables_of_any_number_take_no_place_from_computed_entries(
    public: tuple[Leaderboard, Path], tmp_path: Path, harness_here: Harness, no_site: None
) -> None:
    """Twenty imported entries were measured on other images, in settings that most entries then have."""
    shutil.copytree(public[1], tmp_path / "store")
    header = "image,metric,attack,strength,defense,clear,attacked,defended_clear,defended_attacked,mos,adaptive"
    rows = [
        f"i{image},m,pgd,medium,harness/x{k},0.{image + 1},1,0.{image + 1},{0.1 * (image + 1) + 0.001 * k},1,{knows}"
        for image in range(6)
        for k in range(20)
        for knows in (0, 1)
    ]
    (tmp_path / "theirs.csv").write_text("\n".join([header, *rows]) + "\n")
    done = harness_here("iqa", "import", "theirs.csv", "--bounds", "m=0:1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (leaderboard,) = current_leaderboards(tmp_path / "store")[0]
    (before,), (after,) = public[0].rankings, leaderboard.rankings
    assert after.places == before.places
    assert after.claim == before.claim
    defense_table = next(table for table in leaderboard.tables if table.id == "defenses")
    assert "x0 (external)" in {row.label for row in defense_table.rows}

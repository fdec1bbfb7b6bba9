"""Adaptive attacks and the audit, in a run on defenses of the package `acme-truth` whose weaknesses are known."""

import numpy as np
import pytest
from tests.forking import WITHOUT_SITE

from imharness.ranking.current import records_of
from imharness.ranking.entries import known_entries
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness_iqa.audit import MARGIN, flags

PROFILE = """
name = "truth"
description = "Defenses whose weakness is known."
[tracks."harness/iqa"]
select = { dataset = ["acme/greys"], metric = ["light/brightness"], attack = ["harness/ifgsm", "harness/square"], defense = ["harness/none", "harness/flat", "harness/flip", "acme/quantized", "acme/gated", "acme/shattered", "acme/turned", "acme/trapdoor"] }
options = { strengths = ["strong"], shown = [], audited = 12, samples = 2, transfer = ["*"] }
parameters."harness/square" = { queries = 20 }
"""  # noqa: E501
LEVEL = 1 / 32
"""The distance of two levels of acme/quantized; the attacks move a pixel by 8/255, a little further."""


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory, harness_forked) -> ResultQuery:
    folder = tmp_path_factory.mktemp("adaptive")
    (folder / "truth.toml").write_text(PROFILE)
    words = ("run", "--all", "--profile", "truth.toml", "--workers", "0", "--device", "cpu")
    run = harness_forked("-c", WITHOUT_SITE, *words, cwd=folder, packages=("acme-truth",))
    assert run.returncode == 0, run.stderr
    store = Store(folder / "store")
    records = records_of(store, store.latest("harness/iqa"))
    return ResultQuery(store, records, known_entries(store).facts(records))


def gains(query: ResultQuery, defense: str, attack: str = "harness/ifgsm") -> tuple[np.ndarray, str]:
    """Return how far the adaptive attack raises the score of each image, and by whose gradient."""
    rows = query(
        "SELECT e.score - d.score AS gain, e.gradient FROM evaluate e JOIN defended d USING (defense, metric, name) "
        f"WHERE e.adaptive AND e.defense = '{defense}' AND e.method LIKE '{attack}%'"
    )
    (whose,) = set(rows["gradient"])
    return rows["gain"], whose


def test_every_purification_is_attacked_by_who_knows_it_and_the_rows_say_how(query: ResultQuery) -> None:
    rows = query("SELECT DISTINCT defense, gradient FROM attack WHERE adaptive AND method NOT LIKE '%square%'")
    assert dict(zip(rows["defense"], rows["gradient"], strict=True)) == {
        "harness/flat": "identity",
        "acme/quantized": "identity",
        "acme/gated": "acme/trapdoor",
        "harness/flip": "own",
        "acme/shattered": "own",
        "acme/turned": "own",
        "acme/trapdoor": "own",
    }
    queries = query("SELECT DISTINCT defense, gradient FROM evaluate WHERE adaptive AND method LIKE '%square%'")
    assert len(queries["defense"]) == 7
    assert set(queries["gradient"]) == {"none"}
    assert len(query("SELECT DISTINCT source FROM transfer")["source"]) == 7


def test_the_identity_crosses_steps_whose_own_gradient_is_zero(query: ResultQuery) -> None:
    values, whose = gains(query, "acme/quantized")
    assert whose == "identity"
    np.testing.assert_allclose(values, LEVEL, atol=1e-6)


def test_a_stand_in_finds_the_way_that_the_identity_does_not(query: ResultQuery) -> None:
    by_stand_in, whose = gains(query, "acme/gated")
    assert whose == "acme/trapdoor"
    unaware = query(
        "SELECT abs(e.score - d.score) AS gain FROM evaluate e JOIN defended d USING (defense, metric, name) "
        "WHERE NOT e.adaptive AND e.defense = 'acme/gated' AND e.method LIKE '%ifgsm%'"
    )["gain"]
    assert by_stand_in.mean() > 0.2 > 0.1 > unaware.mean()


def test_a_flat_image_is_perfect_protection_and_is_marked_as_a_control(query: ResultQuery) -> None:
    assert not gains(query, "harness/flat")[0].any()
    assert not gains(query, "harness/flat", "harness/square")[0].any()
    rows = query("SELECT label, control FROM components WHERE control <> '' AND kind = 'defense'")
    assert dict(zip(rows["label"], rows["control"], strict=True)) == {
        "harness/flat": "a flat image",
        "harness/none": "no defense",
    }


def test_shattered_gradients_are_flagged_and_honest_ones_are_not(query: ResultQuery) -> None:
    assert (gains(query, "acme/shattered")[0] < 0).all()
    flagged = flags(query)
    assert set(flagged) == {"acme/shattered"}
    assert {"identity gradient", "transferred images"} <= set(flagged["acme/shattered"])
    rows = query("SELECT \"check\", avg(floor - gain) AS lost FROM audit WHERE defense = 'harness/none' GROUP BY ALL")
    checks = {"more steps", "black box", "transferred images", "identity gradient", "unbounded radius"}
    assert set(rows["check"]) == checks | {"random projections", "look-up"}
    assert (rows["lost"] <= MARGIN).all()
    assert "more samples" in set(query("SELECT \"check\" FROM audit WHERE defense = 'acme/turned'")["check"])


def test_what_moves_pixels_is_compared_as_it_is_and_moved_back(query: ResultQuery) -> None:
    """The defense `acme/quantized` moves no pixels, so that moving them back changes nothing."""
    for step in ("purify", "evaluate"):
        rows = query(f"SELECT psnr, psnr_undone, ssim, ssim_undone FROM {step} WHERE defense = 'acme/quantized'")
        np.testing.assert_array_equal(rows["psnr"], rows["psnr_undone"])
        np.testing.assert_array_equal(rows["ssim"], rows["ssim_undone"])

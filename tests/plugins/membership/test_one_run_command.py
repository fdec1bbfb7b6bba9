"""`harness membership one-run`: canaries from a file, and a ranked defense that is trained with canaries."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result

import imharness as ih
from imharness.cli import cli
from imharness.commands import find
from imharness.errors import UsageError
from imharness.membership import TrainingData
from imharness_membership.leaderboard_run import leaderboard_run, read_canaries


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["membership", "one-run", *map(str, words)], catch_exceptions=False)


def canaries() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    coins = rng.random(400) < 0.5
    return 3 * coins + rng.normal(size=400), coins


def test_a_file_gives_the_bounds_of_the_function(tmp_path: Path) -> None:
    scores, included = canaries()
    np.savez(tmp_path / "a.npz", scores=scores, included=included)
    pd.DataFrame({"scores": scores, "included": included.astype(int)}).to_csv(tmp_path / "a.csv", index=False)
    expected = ih.audit_one_run(scores, included, delta=1e-6, guesses=100).bounds
    for name in ("a.npz", "a.csv"):
        done = run(tmp_path / name, "--delta", 1e-6, "--guesses", 100, "--json", tmp_path / "b.json")
        assert done.exit_code == 0, done.output
        facts = json.loads((tmp_path / "b.json").read_text())
        assert facts["any_algorithm"]["epsilon"] == pytest.approx(expected.any_algorithm.epsilon)
        assert facts["mu"] == pytest.approx(expected.mu)
        assert "Lower bounds of epsilon at delta 1e-06" in done.output


def test_scores_that_are_losses_and_coins_that_are_reversed_are_doubted(tmp_path: Path) -> None:
    scores, included = canaries()
    for wrong in ((-scores, included), (scores, ~included)):
        result = ih.audit_one_run(*wrong)
        assert result.epsilon == 0
        assert "scores or the inclusion look reversed" in repr(result)
        np.savez(tmp_path / "a.npz", scores=wrong[0], included=wrong[1])
        assert "scores or the inclusion look reversed" in " ".join(run(tmp_path / "a.npz").output.split())
    assert ih.audit_one_run(scores, included).bounds.doubt == ""
    rng = np.random.default_rng(3)
    nothing = [ih.audit_one_run(rng.normal(size=400), rng.random(400) < 0.5).bounds for _ in range(100)]
    assert not any(audit_result.doubt for audit_result in nothing)


@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize("leak", [0.0, 3.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_canaries_that_are_listed_more_than_once_are_refused(times: int, leak: float, kind: type) -> None:
    rng = np.random.default_rng(1)
    coins = rng.random(200) < 0.5
    scores = (leak * coins + rng.normal(size=200)).astype(kind)
    with pytest.raises(
        UsageError, match=f"scores: {200 * (times - 1)} canaries have the score and the coin of another"
    ):
        ih.audit_one_run(np.tile(scores, times), np.tile(coins, times))


@pytest.mark.parametrize("leak", [0.0, 3.0, 30.0])
def test_scores_that_are_equal_by_rounding_are_no_repeated_canaries(leak: float) -> None:
    rng = np.random.default_rng(1)
    coins = rng.random(1000) < 0.5
    scores = leak * coins + rng.normal(size=1000)
    shares = (1 / (1 + np.exp(-scores - 8))).astype(np.float32).astype(np.float64)
    # log odds of single-precision probabilities near 1, of which there are few
    surest = np.log(shares) - np.log1p(-np.minimum(shares, 1 - 2**-24))
    for rounded in (scores.round(1), scores.round(2), scores.round(4), scores.astype(np.float16), scores > 1.5, surest):
        assert ih.audit_one_run(rounded, coins).bounds.canaries == 1000


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist"):
        read_canaries(tmp_path / "none.npz")
    (tmp_path / "a.pkl").touch()
    with pytest.raises(UsageError, match=r"the ending must be"):
        read_canaries(tmp_path / "a.pkl")
    for arrays, message in (
        ({"scores": np.zeros(3)}, "no array included"),
        ({"scores": np.zeros(3), "included": np.zeros(2)}, "of one shape"),
        ({"scores": np.zeros(3), "included": np.arange(3)}, "0 and 1"),
        ({"scores": np.full(3, np.nan), "included": np.zeros(3)}, "finite"),
    ):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(UsageError, match=message):
            read_canaries(tmp_path / "a.npz")
    pd.DataFrame({"scores": [1.0]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(UsageError, match="has no column included"):
        read_canaries(tmp_path / "a.csv")
    with pytest.raises(UsageError, match="give FILE or --defense NAME"):
        CliRunner().invoke(cli, ["membership", "one-run"], catch_exceptions=False, standalone_mode=False)


def test_rows_that_are_trained_on_are_of_all_classes_though_the_table_is_sorted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first half of such a table has half of the classes."""
    digits, trained_on = find("dataset", "digits").build(torch.device("cpu")), list[TrainingData]()
    by_class = digits.labels.argsort(stable=True)
    ordered = replace(digits, features=digits.features[by_class], labels=digits.labels[by_class])
    monkeypatch.setattr(type(find("dataset", "digits")), "build", lambda dataset, device: ordered)

    class Halted(Exception):
        pass

    def build(training, device):
        def train(start, data, plan, rng, progress):
            trained_on.append(data)
            raise Halted

        return train

    monkeypatch.setattr(type(find("defense", "plain-training")), "build", build)
    with pytest.raises(Halted):
        leaderboard_run("plain-training", "digits", "mlp", 100, 0, lambda done, total: None)
    (data,) = trained_on
    assert min(data.labels.bincount()) > 50
    assert min(data.reference_labels.bincount(minlength=digits.classes)) > 50


def test_an_undefended_network_learns_canaries_by_heart_and_promises_nothing() -> None:
    scores, included, promised = leaderboard_run("plain-training", "digits", "mlp", 600, 0, lambda done, total: None)
    assert promised is None
    assert len(scores) == len(included) == 600
    assert ih.audit_one_run(scores, included).epsilon > 1
    again = leaderboard_run("plain-training", "digits", "mlp", 600, 0, lambda done, total: None)
    assert (again[0] == scores).all()
    with pytest.raises(UsageError, match="does not train a model"):
        leaderboard_run("memguard", "digits", "mlp", 600, 0, lambda done, total: None)
    with pytest.raises(UsageError, match="digits has 1797 rows"):
        leaderboard_run("plain-training", "digits", "mlp", 1797, 0, lambda done, total: None)

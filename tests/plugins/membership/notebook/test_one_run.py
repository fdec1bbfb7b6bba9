"""`ih.audit_one_run`: scores or a training function in, lower bounds of epsilon out."""

from pathlib import Path

import numpy as np
import pytest
import torch

import imharness as ih
from imharness.errors import UsageError

M = 400


def scores(leak: float) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of M canaries and the coins that included them; included ones score higher by `leak`."""
    rng = np.random.default_rng(0)
    coins = rng.random(M) < 0.5
    return leak * coins + rng.normal(size=M), coins


def test_scores_and_coins_give_three_lower_bounds() -> None:
    result = ih.audit_one_run(*scores(3.0))
    assert 1 < result.epsilon < result.bounds.gaussian.epsilon < result.bounds.independent.epsilon
    assert result.bounds.independent.guesses == M // 2
    assert result.table().labels == ("any algorithm", "Gaussian", "Gaussian, independent canaries")
    assert result.table().column("epsilon")[0] == result.epsilon
    assert "lower bound" in repr(result)
    assert set(result.rows()) == {"score", "included"}
    assert ih.audit_one_run(*scores(0.0)).epsilon == 0
    assert ih.audit_one_run(*scores(3.0), confidence=0.999).epsilon < result.epsilon
    assert ih.audit_one_run(*scores(3.0), guesses=40).bounds.tried == (40,)


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ((np.zeros(5), np.zeros(4)), {}, "included: there must be as many scores as coins, got 5 and 4"),
        ((np.full(50, np.nan), np.arange(50) % 2), {}, "scores: number 0 is NaN"),
        ((np.zeros(50), np.arange(50)), {}, "included: must hold true and false"),
        ((np.zeros(10), np.arange(10) % 2), {}, "scores: at least 20 canaries"),
        ((np.zeros(200), np.ones(200)), {}, "included: 200 of 200 canaries .* fair coins"),
        ((np.zeros(50), np.arange(50) % 2), {"delta": 1}, "delta: expected"),
        ((np.zeros(50), np.arange(50) % 2), {"confidence": 95}, "confidence: expected a number between 0 and 1"),
        ((np.zeros(50), np.arange(50) % 2), {"guesses": 51}, "guesses: expected a number from 2 to 50"),
        ((np.zeros(50), np.arange(50) % 2), {"train": len, "data": 1}, "train: give scores and coins, or"),
        ((), {"train": 3, "data": 1}, "train: expected a function"),
        ((), {"train": len, "data": 1}, "data: expected a pair"),
        ((), {"train": len, "data": ([1, 2], [0, 1]), "canaries": 3}, "canaries: expected a number from 1 to 2"),
        ((), {"train": len, "data": ([1, 2], [0, 1]), "canaries": [0, 0]}, "canaries: expected their number, or"),
    ],
)
def test_what_does_not_fit_is_named(arguments: tuple, more: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ih.audit_one_run(*arguments, **more)


def by_heart(inputs: np.ndarray, labels: np.ndarray, calls: list[int]):
    """Return a training function whose models know the labels of their rows and guess those of others.

    Each training appends its number of rows to `calls`.
    """

    def train(indices: np.ndarray, seed: int):
        calls.append(len(indices))
        table = np.full((len(labels), 4), 0.25)
        table[indices] = 0.01
        table[indices, labels[indices]] = 0.97
        return lambda rows: table[rows[:, 0]]

    return train


def test_a_training_function_is_called_once_and_not_again(tmp_path: Path) -> None:
    labels, inputs = np.arange(600) % 4, np.arange(600)[:, None]
    calls: list[int] = []
    train = by_heart(inputs, labels, calls)
    result = ih.audit_one_run(train=train, data=(inputs, labels), canaries=400, cache=tmp_path)
    assert result.epsilon > 2
    assert result.bounds.canaries == 400
    assert calls == [200 + result.bounds.included]
    calls.clear()
    again = ih.audit_one_run(train=train, data=(inputs, labels), canaries=400, cache=tmp_path)
    assert calls == []
    assert again.epsilon == result.epsilon
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"damaged")
    assert ih.audit_one_run(train=train, data=(inputs, labels), canaries=400, cache=tmp_path).epsilon == result.epsilon
    assert len(calls) == 1


def test_a_torch_module_answers_with_logits(tmp_path: Path) -> None:
    inputs, labels = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)), np.arange(200) % 3

    def train(indices: np.ndarray, seed: int) -> torch.nn.Module:
        return torch.nn.Linear(3, 3)

    result = ih.audit_one_run(train=train, data=(inputs, labels), canaries=np.arange(100), cache=tmp_path)
    assert result.bounds.canaries == 100
    assert np.isfinite(result.rows()["score"]).all()


def test_the_coins_do_not_follow_from_the_seed_that_the_training_gets(tmp_path: Path) -> None:
    labels, inputs = np.arange(600) % 4, np.arange(600)[:, None]
    result = ih.audit_one_run(train=by_heart(inputs, labels, []), data=(inputs, labels), canaries=400, cache=tmp_path)
    coins = np.random.default_rng(0).random(400) < 0.5
    assert 0.35 < np.mean(coins == result.rows()["included"]) < 0.65

"""`ih.audit` with a function that trains the target and its reference models."""

from pathlib import Path

import numpy as np
import pytest

import imharness as ih
from imharness.errors import UsageError
from imharness_membership.notebook.references import halves

ATTACKS = ["lira", "rmia", "attack-r"]


def nearest(inputs: np.ndarray, labels: np.ndarray, stop_after: list[int]):
    """Return a training function, whose models answer by the distance of a row to their training rows.

    After `stop_after[0]` trainings it raises KeyboardInterrupt.
    """

    def train(indices: np.ndarray, seed: int):
        stop_after[0] -= 1
        if stop_after[0] < 0:
            raise KeyboardInterrupt

        def model(rows: np.ndarray) -> np.ndarray:
            near = np.exp(-4 * np.abs(rows[:, None, 0] - inputs[None, indices, 0]))
            return (near @ np.eye(3)[labels[indices]] + 0.01) / (near.sum(axis=1, keepdims=True) + 0.03)

        return model

    return train


def test_an_interrupted_training_goes_on_and_a_repeated_one_trains_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.random((300, 1)) * 300, rng.integers(0, 3, 300)
    options = {"data": (inputs, labels), "references": 8, "cache": tmp_path, "progress": False, "evaluators": ATTACKS}
    remaining = [5]
    with pytest.raises(KeyboardInterrupt):
        ih.audit(train=nearest(inputs, labels, remaining), **options)
    assert len(list(tmp_path.iterdir())) == 5
    result = ih.audit(train=nearest(inputs, labels, [5]), **options)  # enough only if stored models are reused
    assert len(list(tmp_path.iterdir())) == 9
    assert result.details.members == 150
    assert result.details.references == 8
    assert result.call.startswith("ih.audit(train=train, data=data, references=8, evaluators=")
    assert result.details.mismatches() == []
    assert result.worst.auc.value > 0.8


def test_the_halves_are_complementary_pairs_that_follow_from_the_seed() -> None:
    masks = halves(101, 7, 0)
    assert masks.shape == (7, 101)
    assert (masks[0] == ~masks[1]).all()
    assert set(masks[::2].sum(axis=1)) == {50}
    assert 0.3 < (masks[0] == masks[2]).mean() < 0.7
    assert (masks == halves(101, 7, 0)).all()
    assert (masks != halves(101, 7, 1)).any()


def test_a_given_target_is_compared_with_trained_references(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    inputs, labels = rng.random((200, 1)) * 200, rng.integers(0, 3, 200)
    train = nearest(inputs, labels, [99])
    member = np.arange(200) % 2 == 0
    target = {"probabilities": train(np.flatnonzero(member), 0)(inputs), "labels": labels, "member": member}
    result = ih.audit(
        target, train=train, data=(inputs, labels), references=4, cache=tmp_path, progress=False, evaluators=ATTACKS
    )
    assert result.details.references == 4
    assert result.worst.auc.value > 0.8
    with pytest.raises(UsageError, match="target: give the outputs of a model, or a training function"):
        ih.audit()
    with pytest.raises(UsageError, match="references: expected a number from 4"):
        ih.audit(train=train, data=(inputs, labels), references=2)


def test_trained_models_are_asked_about_views_and_the_answers_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    inputs, labels = rng.random((80, 3)), np.arange(80) % 2
    seen: list[int] = []

    def train(indices: np.ndarray, seed: int):
        seen.append(seed)
        mine, classes = inputs[indices], labels[indices]

        def answer(rows: np.ndarray) -> np.ndarray:
            distances = ((rows[:, None] - mine[None]) ** 2).sum(axis=2)
            weights = np.exp(-20 * distances)
            share = (weights * classes).sum(axis=1) / weights.sum(axis=1)
            return np.stack([1 - share, share], axis=1)

        return answer

    words = {"references": 4, "evaluators": ["lira"], "progress": False, "cache": tmp_path}
    with_views = ih.audit(train=train, data=(inputs, labels), views=[inputs + 0.01, inputs - 0.01], **words)
    assert len(seen) == 5
    again = ih.audit(train=train, data=(inputs, labels), views=[inputs + 0.01, inputs - 0.01], **words)
    assert len(seen) == 5
    assert again.rows()["auc"].tolist() == with_views.rows()["auc"].tolist()
    alone = ih.audit(train=train, data=(inputs, labels), **words)
    assert len(seen) == 10
    assert alone.rows()["auc"].tolist() != with_views.rows()["auc"].tolist()


def test_views_need_a_training_function_and_a_target_that_it_trains() -> None:
    inputs, labels = np.zeros((40, 2)), np.arange(40) % 2
    target = {"probabilities": np.full((40, 2), 0.5), "labels": labels, "member": labels == 0}
    with pytest.raises(UsageError, match="views: are inputs for a training function"):
        ih.audit(target, views=[inputs])
    with pytest.raises(UsageError, match="views: the target's answers to them are needed"):
        ih.audit(target, train=lambda i, s: None, data=(inputs, labels), views=[inputs], references=4)
    with pytest.raises(UsageError, match="views: each must hold as many inputs"):
        ih.audit(train=lambda i, s: None, data=(inputs, labels), views=[inputs[:3]], references=4)

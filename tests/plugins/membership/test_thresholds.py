"""The learnt threshold against the exhaustive search, bit by bit."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_membership.evaluators.modified_entropy import ModifiedEntropy
from harness_membership.thresholds import best_threshold


def exhaustive(values: np.ndarray, member: np.ndarray) -> float:
    best, kept = -1.0, 0.0
    for candidate in [*values[member], *values[~member]]:
        accuracy = np.mean(values[member] >= candidate) + np.mean(values[~member] < candidate)
        if accuracy > best:
            best, kept = accuracy, candidate
    return float(kept)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 30), st.integers(1, 3))
def test_equals_the_exhaustive_search(seed: int, inside: int, outside: int, decimals: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=inside + outside).round(decimals).astype(np.float32)
    member = np.arange(inside + outside) < inside
    found = best_threshold(torch.from_numpy(values), torch.from_numpy(member))
    assert float(found) == exhaustive(values, member)


def test_without_members_nobody_is_one() -> None:
    assert best_threshold(torch.ones(3), torch.zeros(3, dtype=torch.bool)) == torch.inf
    assert best_threshold(torch.ones(3), torch.ones(3, dtype=torch.bool)) == -torch.inf


def test_modified_entropy_is_zero_only_for_a_certain_right_answer() -> None:
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    value = -ModifiedEntropy().value(outputs, torch.tensor([0, 0, 0]))
    assert value[0] == 0
    assert value[1] > 100
    assert abs(float(value[2]) - np.log(2)) < 1e-6

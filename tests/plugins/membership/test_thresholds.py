"""The learnt thresholds against the exhaustive search, bit by bit."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from imharness.membership import MembershipQuery
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.thresholds import class_thresholds, margins


def exhaustive(values: np.ndarray, member: np.ndarray) -> float:
    """Return the threshold of a class: the value with the highest balanced accuracy, the first of equally good ones."""
    if len(member) == 0:
        return np.nan
    if member.all() or not member.any():
        return -np.inf if member.all() else np.inf
    best, threshold = -1.0, 0.0
    for candidate in [*values[member], *values[~member]]:
        twice_accuracy = (values[member] >= candidate).mean() + (values[~member] < candidate).mean()
        if twice_accuracy > best:
            best, threshold = twice_accuracy, candidate
    return float(threshold)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 5), st.integers(0, 3))
def test_equals_the_exhaustive_search_in_every_class(seed: int, n: int, classes: int, decimals: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n).round(decimals).astype(np.float32)
    values[rng.random(n) < 0.1] = rng.choice([-np.inf, 0.0, -0.0, np.float32(1e-42)])
    member, labels = rng.random(n) < 0.5, rng.integers(0, classes, n)
    thresholds = class_thresholds(values, member, labels, classes)
    expected = [exhaustive(values[labels == c], member[labels == c]) for c in range(classes)]
    np.testing.assert_array_equal(thresholds, np.array(expected, dtype=np.float32))


def test_a_threshold_of_many_rows_is_the_first_of_the_best() -> None:
    values = np.array([2, 1, 3, 1], dtype=np.float32)
    member = np.array([False, True, True, False])
    assert class_thresholds(values, member, np.zeros(4, int), 1)[0] == exhaustive(values, member)


def test_nan_counts_as_no_member() -> None:
    values = np.array([np.nan, 1, 2, 0], dtype=np.float32)
    member = np.array([False, True, True, False])
    assert class_thresholds(values, member, np.zeros(4, int), 1)[0] == 1
    query = MembershipQuery(
        shadow_outputs=torch.ones(4, 2),
        shadow_labels=torch.zeros(4, dtype=torch.int64),
        shadow_member=torch.from_numpy(member),
        target_outputs=torch.ones(2, 2),
        target_labels=torch.tensor([0, 1]),
    )
    margin_values = margins(query, torch.from_numpy(values), torch.tensor([torch.nan, 1.5]), per_class=True)
    assert (margin_values >= 0).tolist() == [False, True]


def test_modified_entropy_is_zero_only_for_a_certain_right_answer() -> None:
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    value = -ModifiedEntropy().value(outputs, torch.tensor([0, 0, 0]))
    assert value[0] == 0
    assert value[1] > 100
    assert abs(float(value[2]) - np.log(2)) < 1e-6

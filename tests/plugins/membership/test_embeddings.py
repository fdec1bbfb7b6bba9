"""Which classes are drawn, and that what is apart stays apart on the plane."""

import numpy as np
import pytest

from imharness.errors import UsageError
from imharness_membership.embeddings import embedded, ends


def test_the_safest_and_the_most_exposed_classes_are_taken_in_order_of_their_members_risk() -> None:
    labels = np.repeat(np.arange(6), 6)
    member = np.tile([True, True, True, True, False, False], 6)
    risk = np.array([0.9, 0.1, 0.5, 0.7, 0.3, 0.6])[labels] + np.where(member, 0, 5.0)  # of non-members it says nothing
    assert ends(risk, labels, member, 4, classes=2) == [1, 4, 3, 0]
    assert ends(risk, labels, member, 4, classes=5) == [1, 4, 2, 5, 3, 0]
    fewer = member & ~((labels == 1) & (np.arange(36) % 6 == 0))
    assert ends(risk, labels, fewer, 4, classes=2) == [4, 2, 3, 0]
    with pytest.raises(UsageError, match="fewer than two classes have 5 members"):
        ends(risk, labels, member, 5)


def test_classes_far_apart_stay_apart_and_members_lie_with_non_members_of_their_class() -> None:
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 40)
    member = np.tile([True, False], 40)
    features = (rng.normal(size=(80, 8)) + 40 * labels[:, None]).astype(np.float32)
    found = embedded(features, 0.5 + 0.2 * labels, labels, member, 10)
    assert found.risk == pytest.approx({0: 0.5, 1: 0.7})
    middles = np.array([found.places[found.labels == own].mean(axis=0) for own in (0, 1)])
    nearest = np.linalg.norm(found.places[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == found.labels).all()
    again = embedded(features, 0.5 + 0.2 * labels, labels, member, 10)
    np.testing.assert_array_equal(found.places, again.places)

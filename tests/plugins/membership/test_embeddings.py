"""Which classes an embedding shows, and that classes far apart stay apart on the plane."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from imharness.errors import UsageError
from imharness_membership.embeddings import Embedding, draw, embedded, ends


def test_the_safest_and_the_most_exposed_classes_are_taken_in_order_of_their_members_risk() -> None:
    labels = np.repeat(np.arange(6), 6)
    member = np.tile([True, True, True, True, False, False], 6)
    risk = np.array([0.9, 0.1, 0.5, 0.7, 0.3, 0.6])[labels] + np.where(member, 0, 5.0)  # non-members must not count
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
    embedding = embedded(features, 0.5 + 0.2 * labels, labels, member, 10)
    assert embedding.risk == pytest.approx({0: 0.5, 1: 0.7})
    middles = np.array([embedding.points[embedding.labels == label].mean(axis=0) for label in (0, 1)])
    nearest = np.linalg.norm(embedding.points[:, None] - middles, axis=2).argmin(axis=1)
    assert (nearest == embedding.labels).all()
    again = embedded(features, 0.5 + 0.2 * labels, labels, member, 10)
    np.testing.assert_array_equal(embedding.points, again.points)


def test_members_are_drawn_beside_non_members_by_class_the_safest_first(tmp_path: Path, figures: list[Figure]) -> None:
    places, labels = np.arange(12.0).reshape(6, 2), np.array([3, 1, 3, 1, 3, 3])
    member = np.array([True, True, False, False, True, False])
    draw(Embedding(places, labels, member, {3: 0.25, 1: 0.75}), tmp_path / "new" / "e.svg")
    assert (tmp_path / "new" / "e.svg").exists()
    for axis, title, inside in zip(figures[0].axes, ("members", "non-members"), (member, ~member), strict=True):
        assert axis.get_title() == title
        for points, number, name in zip(axis.collections, (3, 1), ("3, risk 0.25", "1, risk 0.75"), strict=True):
            np.testing.assert_array_equal(points.get_offsets(), places[inside & (labels == number)])
            assert points.get_label() == f"class {name}"

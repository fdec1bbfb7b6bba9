"""What counts once in the rankings of protected models."""

import numpy as np
import pytest

from imharness_reconstruction.units import joined


def test_what_shares_an_update_counts_once() -> None:
    assert joined(["a", "b", "c", "d", "e"], 2) == ["a", "a", "c", "c", "e"]
    assert joined(["a", "b", "c"], 1) == ["a", "b", "c"]


def test_images_of_one_photograph_join_the_participants_that_have_them() -> None:
    assert joined(["a", "b", "b", "c", "d", "e"], 2) == ["a", "a", "a", "a", "d", "d"]


@pytest.mark.parametrize("images", [1, 2, 3, 7])
def test_joined_sources_are_the_connected_parts(images: int) -> None:
    rng = np.random.default_rng(images)
    for _ in range(20):
        sources = [str(source) for source in rng.integers(0, 12, 20)]
        labels = joined(sources, images)
        reached = {i: {i} for i in range(20)}
        for _ in range(20):
            for i, j in ((i, j) for i in range(20) for j in range(20)):
                if sources[i] == sources[j] or i // images == j // images:
                    reached[i] |= reached[j]
        assert all((labels[i] == labels[j]) == (j in reached[i]) for i in range(20) for j in range(20))

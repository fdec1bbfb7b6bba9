"""Rows are spread over sessions so that none sees two versions of one image."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng, generator
from imharness.testing.samples import images as sample_images
from imharness_submissions.sandbox.row_isolation import LANES, Lanes


def tensors(images: torch.Tensor, names: list[int], streams: bool) -> dict[str, torch.Tensor]:
    """Return the tensors of a call: of a defense with `streams` (named by `names`), of a metric without."""
    return {"images": images, "rng": ImageRng(names).states()} if streams else {"images": images}


def call(streams: bool):
    """Return the description of the calls of a defense (with streams) or of a metric."""
    return Purification.call if streams else NoReferenceMetric.call


def versions(n: int, copies: int) -> torch.Tensor:
    """Return n clean images and then their noisy copies: (n * copies, 3, 32, 32)."""
    clean = sample_images(n, 32, 32, 5) * 0.8 + 0.1
    noise = [0.03 * torch.randn(clean.shape, generator=generator(k)).sign() for k in range(copies - 1)]
    return torch.cat([clean, *(clean + one for one in noise)])


@given(st.integers(1, 8), st.integers(1, 5), st.booleans())
def test_no_request_holds_two_versions_and_every_row_is_asked_once(n: int, copies: int, streams: bool) -> None:
    requests = Lanes().spread(call(streams), tensors(versions(n, copies), [*range(n)] * copies, streams), n * copies)
    assert sorted(row for _, rows in requests for row in rows) == list(range(n * copies))
    assert all(len({row % n for row in rows}) == len(rows) for _, rows in requests)
    assert {lane for lane, _ in requests} == set(range(min(copies, LANES)))


def test_sessions_keep_apart_what_came_in_two_calls() -> None:
    for streams in (True, False):
        both, lanes, names = versions(6, 2), Lanes(), list(range(6))
        seen: dict[int, set[int]] = {}
        for batch in both.split(6):
            for lane, rows in lanes.spread(call(streams), tensors(batch, names, streams), 6):
                assert not seen.get(lane, set()) & set(rows), "a session saw an image and its attacked copy"
                seen.setdefault(lane, set()).update(rows)


def test_the_same_image_again_stays_where_it_was() -> None:
    """A task repeats a call to measure its time; this opens no further session."""
    images, lanes = versions(4, 1), Lanes()
    for seeds in ([1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]):
        assert {lane for lane, _ in lanes.spread(call(True), tensors(images, seeds, True), 4)} == {0}


def test_spreading_is_random_and_the_same_each_time() -> None:
    both, names = versions(8, 2), [*range(8)] * 2
    first, again = (Lanes().spread(call(True), tensors(both, names, True), 16) for _ in range(2))
    assert first == again
    sides = [{row // 8 for row in rows} for _, rows in first]
    assert sides == [{0, 1}, {0, 1}], "neither session has the clean images for itself"
    other = Lanes().spread(call(True), tensors(both + 0.001, names, True), 16)
    assert [sorted(rows) for _, rows in other] != [sorted(rows) for _, rows in first]


def test_calls_without_images_or_streams_go_as_they_are() -> None:
    assert Lanes().spread(call(False), {"images": torch.zeros(0, 3, 8, 8)}, 0) == [(0, [])]

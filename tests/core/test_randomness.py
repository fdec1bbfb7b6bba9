"""No batch can change a random number."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from imharness.contracts.randomness import ImageRng, derive_seed, generator, seeded_init


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 2**62), min_size=1, max_size=6), cut=st.integers(0, 6))
def test_the_batch_changes_nothing(seeds: list[int], cut: int) -> None:
    whole, pieces = ImageRng(seeds), (ImageRng(seeds[:cut]), ImageRng(seeds[cut:]))
    for draw in ("uniform", "normal"):
        together = getattr(whole, draw)(2, 3)
        apart = [getattr(piece, draw)(2, 3) for piece in pieces if len(piece)]
        assert torch.equal(together, torch.cat(apart))


def test_slices_go_on_where_the_stream_is() -> None:
    rng = ImageRng([1, 2])
    first, second = rng.slice(0, 1).normal(3), rng.normal(3)
    alone = ImageRng([1])
    assert torch.equal(first, alone.normal(3))
    assert torch.equal(second[:1], alone.normal(3))


def test_copies_have_streams_of_their_own_that_belong_to_the_image() -> None:
    both, one = ImageRng([1, 2]).repeated(3), ImageRng([2]).repeated(3)
    draws = both.normal(4)
    assert len(torch.unique(draws[:, 0])) == 6
    assert torch.equal(draws[3:], one.normal(4))


def test_initialisation_leaves_the_global_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded_init(generator(1)):
        first = torch.nn.Linear(3, 3).weight
    assert torch.equal(torch.rand(3), expected)
    with seeded_init(generator(1)):
        assert torch.equal(torch.nn.Linear(3, 3).weight, first)


def test_initialisation_seeds_accelerators_and_asks_none_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """After that, copies of this process could not use CUDA, and some audits train in such copies."""

    def refuse(*arguments: Any) -> int:
        raise AssertionError("CUDA was asked")

    for owner, name in (
        (torch.cuda, "is_available"),
        (torch.cuda, "device_count"),
        (torch.cuda, "init"),
        (torch._C, "_cuda_getDeviceCount"),
        (torch._C, "_accelerator_deviceCount"),
        (torch.accelerator, "is_available"),
        (torch.accelerator, "device_count"),
    ):
        monkeypatch.setattr(owner, name, refuse, raising=False)
    seeds = list[int]()
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with seeded_init(generator(1)):
        drawn = torch.initial_seed()
    assert seeds == [drawn]


def test_seeds_depend_on_every_part_and_their_order() -> None:
    assert len({derive_seed("a", "b"), derive_seed("b", "a"), derive_seed("ab"), derive_seed("a", "b", "")}) == 4

"""Random numbers of an image do not depend on its batch, and numbers of `CounterRng` have their distributions.

`ImageRng` uses generators of torch; on a CUDA device it is a `CounterRng`, which is tested here on the CPU.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from imharness.contracts.randomness import CounterRng, ImageRng, derive_seed, generator, seeded_init
from imharness.testing.placement import ACCELERATOR, MAC, acted_accelerator

KINDS = pytest.mark.parametrize("kind", [ImageRng, CounterRng])


@KINDS
@settings(max_examples=30, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=6), cut=st.integers(0, 6), count=st.integers(0, 5)
)
def test_the_batch_changes_nothing(kind: type[ImageRng], seeds: list[int], cut: int, count: int) -> None:
    whole, pieces = kind(seeds), (kind(seeds[:cut]), kind(seeds[cut:]))
    backwards = kind(seeds[::-1])
    for draw, limits in (("uniform", ()), ("normal", ()), ("integers", (-3, 9))):
        together = getattr(whole, draw)(*limits, count, 3)
        assert together.shape == (len(seeds), count, 3)
        apart = [getattr(piece, draw)(*limits, count, 3) for piece in pieces if len(piece)]
        assert torch.equal(together, torch.cat(apart))
        assert torch.equal(together, getattr(backwards, draw)(*limits, count, 3).flip(0))


@KINDS
def test_slices_go_on_where_the_stream_is(kind: type[ImageRng]) -> None:
    rng = kind([1, 2, 3])
    first_two = rng.slice(0, 2)
    first, second, third = first_two.slice(0, 1).normal(3), rng.normal(3), first_two.normal(3)
    for row, seed in enumerate([1, 2]):
        alone = kind([seed])
        draws = [first] if row == 0 else []
        for draw in (*draws, second[row : row + 1], third[row : row + 1]):
            assert torch.equal(draw, alone.normal(3))


@KINDS
def test_copies_have_streams_of_their_own_that_belong_to_the_image(kind: type[ImageRng]) -> None:
    both, one = kind([1, 2]).repeated(3), kind([2]).repeated(3)
    draws = both.normal(4)
    assert len(torch.unique(draws[:, 0])) == 6
    assert torch.equal(draws[3:], one.normal(4))
    assert type(both) is kind


@KINDS
def test_streams_go_on_from_their_states(kind: type[ImageRng]) -> None:
    rng = kind([3, 4])
    rng.uniform(5)
    before = rng.states()
    draws = [rng.normal(3), rng.integers(0, 9, 2)]
    other = kind([0, 0])
    for again in (rng, other):
        again.restore(before)
        assert torch.equal(again.normal(3), draws[0])
        assert torch.equal(again.integers(0, 9, 2), draws[1])
    assert before.dtype == torch.uint8
    assert kind([]).states().numel() == 0
    with pytest.raises(RuntimeError):
        other.restore(before[:, :-1])


def test_an_accelerator_counts_and_the_cpu_has_generators() -> None:
    assert type(ImageRng([1])) is ImageRng
    with acted_accelerator(MAC):
        assert type(ImageRng([1], MAC)) is ImageRng
    with acted_accelerator():
        there = ImageRng([1], "cuda")
        assert (type(there), type(there.slice(0, 1)), type(there.repeated(2))) == (CounterRng,) * 3
        drawn = [there.uniform(3), there.normal(3), there.integers(0, 5, 3)]
        assert {draw.device for draw in drawn} == {ACCELERATOR}
        assert there.states().device.type == "cpu"
        drawn_on_cpu = [draw.cpu() for draw in drawn]
    here = CounterRng([1])
    here.repeated(2)
    assert torch.equal(here.uniform(3), drawn_on_cpu[0])
    assert torch.equal(here.normal(3), drawn_on_cpu[1])
    assert torch.equal(here.integers(0, 5, 3), drawn_on_cpu[2])


def test_words_are_those_that_splitmix64_is_published_with() -> None:
    """The first words from the seed 1234567, as implementations in other languages give them."""
    seeds = [1234567, 2**63 - 1]
    rng = CounterRng(seeds)
    words = torch.cat([rng._words(3), rng._words(2)], dim=1)
    assert [word % 2**64 for word in words[0].tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    for row, seed in zip(words.tolist(), seeds, strict=True):
        for number, word in enumerate(row, start=1):
            z = (seed + number * 0x9E3779B97F4A7C15) % 2**64
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
            assert word % 2**64 == z ^ z >> 31


def test_uniform_and_normal_numbers_have_their_distributions() -> None:
    """Over all numbers, over each stream, and over each position in the streams; the seeds follow each other."""
    rng = CounterRng(range(200))
    uniform, normal = rng.uniform(5001).double(), rng.normal(5001).double()
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    assert bool(normal.isfinite().all())
    for drawn, law in ((uniform, stats.uniform()), (normal, stats.norm())):
        assert stats.kstest(drawn.flatten().numpy(), law.cdf).pvalue > 0.01
        for numbers in (drawn, drawn.T):
            spread = law.std() / numbers.shape[1] ** 0.5
            means = (numbers.mean(dim=1) - law.mean()) / spread
            assert stats.kstest(means.numpy(), stats.norm().cdf).pvalue > 0.01
    moments = [float((normal**power).mean()) for power in (1, 2, 3, 4, 6)]  # below: expectations and variances
    for moment, expected, variance in zip(moments, (0, 1, 0, 3, 15), (1, 2, 15, 96, 10170), strict=True):
        assert abs(moment - expected) < 4 * (variance / normal.numel()) ** 0.5
    assert float(normal.abs().max()) > 4.5, "there are tails"


@pytest.mark.parametrize("draw", ["uniform", "normal"])
def test_streams_and_places_do_not_follow_from_each_other(draw: str) -> None:
    numbers = getattr(CounterRng(range(300)), draw)(4096).double()
    numbers = (numbers - numbers.mean()) / numbers.std()
    between = (numbers @ numbers.T / 4096**0.5)[tuple(torch.triu_indices(300, 300, 1))]
    assert stats.kstest(between.numpy(), stats.norm().cdf).pvalue > 0.01
    for lag in (1, 2, 3, 64, 72, 1024):
        pairs = numbers[:, lag:] * numbers[:, :-lag]
        assert abs(float(pairs.mean())) < 4 / pairs.numel() ** 0.5
        sizes = (numbers[:, lag:] ** 2 - 1) * (numbers[:, :-lag] ** 2 - 1)
        assert abs(float(sizes.mean())) < 4 * float(sizes.std()) / pairs.numel() ** 0.5


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-5, 6), (3, 4), (0, 2**62), (-(2**40), 3**30)])
def test_integers_are_equally_likely(low: int, high: int) -> None:
    numbers = CounterRng(range(100)).integers(low, high, 2000)
    assert numbers.dtype == torch.int64
    assert int(numbers.min()) >= low
    assert int(numbers.max()) < high
    if high - low == 1:
        assert {*numbers.flatten().tolist()} == {low}
    elif high - low < 100:
        counts = torch.bincount(numbers.flatten() - low, minlength=high - low)
        assert stats.chisquare(counts.numpy()).pvalue > 0.01
    else:
        share = (numbers.double().flatten() - low) / (high - low)
        assert stats.kstest(share.numpy(), stats.uniform().cdf).pvalue > 0.01


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="integers: there are none from 3 up to but not including 3"):
        CounterRng([1]).integers(3, 3, 2)


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
    """If CUDA was asked, forked copies of this process cannot use it, and some audits train in such copies."""

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

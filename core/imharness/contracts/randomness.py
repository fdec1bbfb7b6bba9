"""Randomness that does not depend on the batch: one independent stream per image.

With a plain `torch.Generator`, image 3 gets other numbers if image 2 is missing from the batch. `ImageRng` holds one
stream per image, seeded by the purpose of the numbers and by the image's name, so that batch size, order and
parallelism change no result.

On the CPU a stream is a `torch.Generator`. On an accelerator, where each draw from a generator waits for a launch of
its own, it is a number that SplitMix64 counts on, and all streams of a batch draw at once: `CounterRng`. The GPU of a
Mac keeps generators, because nobody has tried products of 64 bits there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


def _signed(number: int) -> int:
    """Return the number of int64 that has the same last 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


GENERATORS = ("cpu", "mps")
"""The types of devices on which each stream is a generator."""
GOLDEN = _signed(0x9E3779B97F4A7C15)
"""What SplitMix64 adds to its state for each word: 2**64 divided by the golden ratio, and odd."""
ROUNDS = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)))
"""The shifts and factors of SplitMix64, before its last shift."""


def derive_seed(*values: object) -> int:
    """Return a seed in [0, 2**63) that depends on every part and on their order."""
    text = "\x1f".join(str(value) for value in values)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator on `device` that starts at `seed`."""
    return torch.Generator(device=device).manual_seed(seed)


@contextmanager
def seeded_init(rng: torch.Generator) -> Iterator[None]:
    """Make torch's layer initialisers draw from `rng` inside the block, and restore the global state after it.

    No accelerator is asked whether it is there: a process that has asked CUDA has no copies that can use it.
    """
    seed = int(torch.randint(2**62, (1,), generator=rng, device=rng.device))
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        yield


class ImageRng:
    """One random stream per image of a batch.

    Every draw returns a tensor ``(N, *shape)``. Its row i depends only on stream i and on the earlier draws from it.
    The same seeds give other numbers on an accelerator, whose streams are of `CounterRng`, than on the CPU.
    """

    def __new__(cls, seeds: Sequence[int] = (), device: torch.device | str = "cpu") -> ImageRng:
        """Return streams of the kind of a device."""
        return super().__new__(CounterRng if cls is ImageRng and torch.device(device).type not in GENERATORS else cls)

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._streams = self._started(seeds)

    def __len__(self) -> int:
        return len(self._streams)

    def states(self) -> torch.Tensor:
        """Return the states of the streams, uint8 ``(N, bytes)`` on the CPU."""
        states = [stream.get_state() for stream in self._streams]
        return torch.stack(states) if states else torch.empty(0, 0, dtype=torch.uint8)

    def restore(self, states: torch.Tensor) -> None:
        """Set the streams to `states`; raises `RuntimeError` if these are not states of this device."""
        for stream, state in zip(self._streams, states, strict=True):
            stream.set_state(state.clone())  # torch reads a view from the wrong offset

    def slice(self, start: int, stop: int) -> ImageRng:
        """Return the streams of images `start` to `stop`; they are shared: a draw from the part advances this batch."""
        subset = type(self)([], self.device)
        subset._streams = self._streams[start:stop]
        return subset

    def repeated(self, copies: int) -> ImageRng:
        """Return a batch in which each image occurs `copies` times in succession, each copy with a new stream."""
        if copies == 1:
            return self
        return type(self)(self.integers(0, 2**62, copies).flatten().tolist(), self.device)

    def uniform(self, *shape: int) -> torch.Tensor:
        """Return float32 numbers in [0, 1), ``(N, *shape)``."""
        return self._draw(lambda s: torch.rand(shape, generator=s, device=self.device))

    def normal(self, *shape: int) -> torch.Tensor:
        """Return standard normal float32 numbers, ``(N, *shape)``."""
        return self._draw(lambda s: torch.randn(shape, generator=s, device=self.device))

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Return int64 numbers in [low, high), ``(N, *shape)``."""
        return self._draw(lambda s: torch.randint(low, high, shape, generator=s, device=self.device))

    def _started(self, seeds: Sequence[int]) -> Any:
        """Return streams that start at seeds; a part of them is shared with the whole."""
        return [generator(seed, self.device) for seed in seeds]

    def _draw(self, one: Callable[[torch.Generator], torch.Tensor]) -> torch.Tensor:
        return torch.stack([one(stream) for stream in self._streams])


class CounterRng(ImageRng):
    """Streams of an accelerator: stream i is SplitMix64 from seed i, and all streams of a batch draw at once.

    SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) adds `GOLDEN` to a
    state of 64 bits and scrambles the sum, so that each word follows from its number alone. A draw takes 19 to 26
    kernels, however many streams there are; generators take one for each stream. A word holds two numbers of
    float32, so that a draw of an odd count leaves half a word unused.
    """

    _streams: torch.Tensor
    """The states, int64 ``(N,)``, on the device; a slice shares them."""

    def states(self) -> torch.Tensor:
        """Return the states of the streams, uint8 ``(N, 8)`` on the CPU, which waits for the device."""
        return self._streams.cpu().clone()[:, None].view(torch.uint8)

    def restore(self, states: torch.Tensor) -> None:
        """Set the streams to `states`; raises `RuntimeError` if these are not states of this device."""
        if states.dtype != torch.uint8 or states.shape != (len(self), 8):
            raise RuntimeError(
                f"expected the states of {len(self)} streams of an accelerator, uint8 ({len(self)}, 8); "
                f"got {states.dtype} {tuple(states.shape)}"
            )
        self._streams.copy_(states.contiguous().view(torch.int64)[:, 0])

    def uniform(self, *shape: int) -> torch.Tensor:
        """Return float32 numbers in [0, 1), multiples of 2**-24, ``(N, *shape)``."""
        halves = self._words(-(-math.prod(shape) // 2)).view(torch.int32)[:, : math.prod(shape)]
        return (halves >> 8).float().mul_(2**-24).add_(0.5).reshape(len(self), *shape)

    def normal(self, *shape: int) -> torch.Tensor:
        """Return standard normal float32 numbers of at most 6.56, ``(N, *shape)``, two from each word.

        By Box & Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29, 1958. The half
        of a word that gives the distance from 0 has 31 bits, exact near 0, so that tails are as fine as they are long.
        """
        halves = self._words(-(-math.prod(shape) // 2)).view(torch.int32)
        positive = (halves[:, 0::2] & (2**31 - 1)).float().add_(1).mul_(2**-31)
        distance = positive.log_().mul_(-2).sqrt_()
        angle = halves[:, 1::2].float().mul_(math.pi * 2**-31)
        pairs = torch.view_as_real(torch.polar(distance, angle))
        return pairs.flatten(1)[:, : math.prod(shape)].reshape(len(self), *shape)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Return int64 numbers in [low, high), ``(N, *shape)``; chances differ by at most (high - low) / 2**63 of them.

        Raises:
            ValueError: there is no number in [low, high).
        """
        if low >= high:
            raise ValueError(f"integers: there are none from {low} up to but not including {high}")
        words = self._words(math.prod(shape))
        return _shifted(words, 1).remainder_(high - low).add_(low).reshape(len(self), *shape)

    def _started(self, seeds: Sequence[int]) -> torch.Tensor:
        states = torch.tensor([_signed(seed) for seed in seeds], dtype=torch.int64)
        return states.to(self.device, non_blocking=True)  # else the host would wait until the device is idle

    def _words(self, count: int) -> torch.Tensor:
        """Return the next words of each stream, int64 ``(N, count)``, all 64 bits random."""
        steps = torch.arange(1, count + 1, device=self.device).mul_(GOLDEN)
        words = self._streams[:, None] + steps
        self._streams.add_(_signed(count * GOLDEN))
        for shift, factor in ROUNDS:
            words.bitwise_xor_(_shifted(words, shift)).mul_(factor)
        return words.bitwise_xor_(_shifted(words, 31))


def _shifted(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return words shifted to the right with zeros from the left; int64 would repeat its sign there."""
    return (words >> bits).bitwise_and_(2 ** (64 - bits) - 1)

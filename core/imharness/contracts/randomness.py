"""Randomness that does not depend on the batch: one independent stream per image.

With a plain `torch.Generator`, image 3 gets other numbers if image 2 is missing from the batch. `ImageRng` holds one
generator per image, seeded by the purpose of the numbers and by the image's name, so that batch size, order and
parallelism change no result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch


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
    """

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self._streams = [generator(seed, self.device) for seed in seeds]

    def __len__(self) -> int:
        return len(self._streams)

    def states(self) -> torch.Tensor:
        """Return the states of the streams, uint8 ``(N, bytes)``."""
        states = [stream.get_state() for stream in self._streams]
        return torch.stack(states) if states else torch.empty(0, 0, dtype=torch.uint8)

    def restore(self, states: torch.Tensor) -> None:
        """Set the streams to `states`; raises `RuntimeError` if these are not states of this device."""
        for stream, state in zip(self._streams, states, strict=True):
            stream.set_state(state.clone())  # torch reads a view from the wrong offset

    def slice(self, start: int, stop: int) -> ImageRng:
        """Return the streams of images `start` to `stop`; they are shared: a draw from the part advances this batch."""
        subset = ImageRng([], self.device)
        subset._streams = self._streams[start:stop]
        return subset

    def repeated(self, copies: int) -> ImageRng:
        """Return a batch in which each image occurs `copies` times in succession, each copy with a new stream."""
        if copies == 1:
            return self
        return ImageRng(self.integers(0, 2**62, copies).flatten().tolist(), self.device)

    def uniform(self, *shape: int) -> torch.Tensor:
        """Return float32 numbers in [0, 1), ``(N, *shape)``."""
        return self._draw(lambda s: torch.rand(shape, generator=s, device=self.device))

    def normal(self, *shape: int) -> torch.Tensor:
        """Return standard normal float32 numbers, ``(N, *shape)``."""
        return self._draw(lambda s: torch.randn(shape, generator=s, device=self.device))

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Return int64 numbers in [low, high), ``(N, *shape)``."""
        return self._draw(lambda s: torch.randint(low, high, shape, generator=s, device=self.device))

    def _draw(self, one: Callable[[torch.Generator], torch.Tensor]) -> torch.Tensor:
        return torch.stack([one(stream) for stream in self._streams])

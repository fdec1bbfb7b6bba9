"""Small constants on the device of the images, moved there once."""

import functools

import torch

Numbers = tuple[float, ...] | tuple[tuple[float, ...], ...]


def constant(values: Numbers, like: torch.Tensor) -> torch.Tensor:
    """Return numbers as a tensor of the dtype and on the device of `like`; not to be changed in place."""
    return _tensor(values, like.dtype, like.device)


@functools.lru_cache(maxsize=256)
def _tensor(values: Numbers, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)

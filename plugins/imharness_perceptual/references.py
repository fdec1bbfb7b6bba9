"""Keeps the features of references for the next call, since attacks compare many images with the same references."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from imharness.images import Images

Features = Sequence[torch.Tensor]


class ReferenceFeatures:
    """Calls `compute`, images ``(N, 3, H, W)`` -> features, once for each of the last `limit` different batches.

    In a batch, references that are equal are computed once; features have one row for each image.

    On other devices than the CPU, and for references that need a gradient, the function is called every time.
    """

    def __init__(self, compute: Callable[[Images], Features], limit: int) -> None:
        self._compute, self._limit = compute, limit
        self._known: OrderedDict[bytes, Features] = OrderedDict()

    def __call__(self, reference: Images) -> Features:
        """Return the features of references; nobody may write into them."""
        if reference.requires_grad or reference.device.type != "cpu":
            return self._compute(reference)
        key = _key(reference)
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self._of_distinct(reference)
        self._known.move_to_end(key)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return self._known[key]

    def _of_distinct(self, reference: Images) -> Features:
        keys = [_key(image) for image in reference]
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        if len(first) == len(keys):
            return self._compute(reference)
        row_of = {key: row for row, key in enumerate(first)}
        features = self._compute(reference[list(first.values())])
        return [tensor[[row_of[key] for key in keys]] for tensor in features]


def _key(images: Images) -> bytes:
    hasher = hashlib.blake2b(f"{images.dtype} {tuple(images.shape)}".encode(), digest_size=16)
    hasher.update(images.contiguous().numpy())
    return hasher.digest()

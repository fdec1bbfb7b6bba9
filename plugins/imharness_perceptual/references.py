"""What metrics compute of references, kept for the next call: attacks compare many images with the same references."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from imharness.images import Images

Features = Sequence[torch.Tensor]


class ReferenceFeatures:
    """Calls `compute`, images ``(N, 3, H, W)`` -> features, once for each of the last `kept` different batches.

    In a batch, references that are equal are computed once; features have one row for each image.

    On other devices than the CPU, and for references that need a gradient, the function is called every time.
    """

    def __init__(self, compute: Callable[[Images], Features], limit: int) -> None:
        self._compute, self._kept = compute, limit
        self._known: OrderedDict[bytes, Features] = OrderedDict()

    def __call__(self, reference: Images) -> Features:
        """Return the features of references; nobody may write into them."""
        if reference.requires_grad or reference.device.type != "cpu":
            return self._compute(reference)
        key = _key(reference)
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self._different(reference)
        self._known.move_to_end(key)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)
        return self._known[key]

    def _different(self, reference: Images) -> Features:
        first: dict[bytes, int] = {}
        positions = [first.setdefault(_key(image), i) for i, image in enumerate(reference)]
        if len(first) == len(reference):
            return self._compute(reference)
        rows = {i: row for row, i in enumerate(first.values())}
        features = self._compute(reference[list(rows)])
        return [tensor[[rows[i] for i in positions]] for tensor in features]


def _key(images: Images) -> bytes:
    hasher = hashlib.blake2b(f"{images.dtype} {tuple(images.shape)}".encode(), digest_size=16)
    hasher.update(images.contiguous().numpy())
    return hasher.digest()

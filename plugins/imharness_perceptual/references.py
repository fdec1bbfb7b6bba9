"""What metrics compute of references, kept for the next call: attacks compare many images with the same references."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from imharness.images import Images

Features = Sequence[torch.Tensor]


class ReferenceFeatures:
    """Calls `compute`, images ``(N, 3, H, W)`` -> features, once for each of the last `kept` different batches.

    On other devices than the CPU, and for references that need a gradient, the function is called every time.
    """

    def __init__(self, compute: Callable[[Images], Features], kept: int) -> None:
        self._compute, self._kept = compute, kept
        self._known: OrderedDict[bytes, Features] = OrderedDict()

    def __call__(self, reference: Images) -> Features:
        """Return the features of references; nobody may write into them."""
        if reference.requires_grad or reference.device.type != "cpu":
            return self._compute(reference)
        key = _key(reference)
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self._compute(reference)
        self._known.move_to_end(key)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)
        return self._known[key]


def _key(images: Images) -> bytes:
    found = hashlib.blake2b(f"{images.dtype} {tuple(images.shape)}".encode(), digest_size=16)
    found.update(images.contiguous().numpy())
    return found.digest()

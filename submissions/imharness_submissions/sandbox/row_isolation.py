"""Decides which rows a session of a package may see: never two versions of one image, where three sessions can do.

A package that sees an image and its attacked copy can find the pair and answer with the smoother one. So the rows of a
call are spread over sessions, each a process in namespaces of its own. Rows are versions of one image when they draw
from the same random stream, or, in calls without streams, when they look alike at a glance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from imharness.contracts.call import Call
from imharness.contracts.randomness import derive_seed, generator
from imharness.contracts.values import ImageBatch, Randomness

LANES = 3
"""Most sessions of one component in a task. A fourth version of an image shares a session, but never a request."""
GLANCE, NEAR = 8, 0.1
"""Two images look alike when their means over GLANCE x GLANCE fields differ by less than NEAR, root mean square."""


@dataclass(frozen=True)
class Rows:
    """What separates rows: digests of their contents ``(n,)``, and of their streams ``(n,)`` or looks ``(n, d)``."""

    content: torch.Tensor
    image: torch.Tensor

    def at(self, positions: list[int]) -> Rows:
        """Return some rows."""
        return Rows(self.content[positions], self.image[positions])

    def versions(self, other: Rows) -> torch.Tensor:
        """Say which rows show one image and are not the same, bool ``(n, m)``."""
        if self.image.is_floating_point():
            distance = torch.cdist(self.image, other.image) / self.image.shape[1] ** 0.5
            alike: torch.Tensor = distance < NEAR
        else:
            alike = self.image[:, None] == other.image[None]
        different: torch.Tensor = self.content[:, None] != other.content[None]
        return alike & different


def rows_of(call: Call, tensors: Mapping[str, torch.Tensor]) -> Rows | None:
    """Return what separates the rows of a call; None where nothing says which of them show one image."""
    kinds = {name: call.arguments[name.partition(".")[0]] for name in tensors}
    streams = [t for name, t in tensors.items() if kinds[name].rows and isinstance(kinds[name], Randomness)]
    images = [t for name, t in tensors.items() if isinstance(kinds[name], ImageBatch)]
    contents = [t for name, t in tensors.items() if kinds[name].rows and not isinstance(kinds[name], Randomness)]
    if not contents or not (streams or images):
        return None
    seen = F.adaptive_avg_pool2d(images[0].float(), GLANCE).flatten(1) if not streams else _digests(streams)
    return Rows(_digests(contents), seen)


def _digests(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return a digest of each row of some tensors, int64 ``(n,)``."""
    byte_arrays = [t.contiguous().view(len(t), -1).view(torch.uint8).numpy() for t in tensors]
    digests = [_digest(rows)[:8] for rows in zip(*byte_arrays, strict=True)]
    return torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.int64)


def _digest(buffers: Iterable[Any]) -> bytes:
    hasher = hashlib.sha256()
    for buffer in buffers:
        hasher.update(buffer)
    return hasher.digest()


def _places(row: list[bool]) -> list[int]:
    return [index for index, flag in enumerate(row) if flag]


class Lanes:
    """Spreads the rows of a task's calls over at most `LANES` sessions.

    Order and choice are random, and follow from the contents of all rows, which no session sees: the same task is
    spread alike each time. On a secret split they follow from its seed, too.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._seen: list[Rows] = []

    def spread(self, call: Call, tensors: Mapping[str, torch.Tensor], n: int) -> list[tuple[int, list[int]]]:
        """Return the requests that a call is split into: the number of the session, and the rows that it gets."""
        rows = rows_of(call, tensors) if n else None
        if rows is None:
            return [(0, list(range(n)))]
        draw = generator(derive_seed("lanes", *([self._secret] if self._secret else []), rows.content.tolist()))
        others = [set(indices) for indices in map(_places, rows.versions(rows).tolist())]
        met = [rows.versions(seen).sum(dim=1).tolist() for seen in self._seen] or [[0] * n]
        requests: list[list[list[int]]] = [[[]] for _ in met]
        for row in torch.randperm(n, generator=draw).tolist():
            here = [
                met[k][row] + sum(other in others[row] for group in groups for other in group)
                for k, groups in enumerate(requests)
            ]
            if min(here) > 0 and len(requests) < LANES:
                requests.append([[]])
                met, here = [*met, [0] * n], [*here, 0]
            free = [k for k, count in enumerate(here) if count == min(here)]
            chosen = free[int(torch.randint(len(free), (1,), generator=draw))]
            fitting = next((group for group in requests[chosen] if others[row].isdisjoint(group)), None)
            if fitting is None:
                requests[chosen].append([row])
            else:
                fitting.append(row)
        lane_groups = [(k, group) for k, groups in enumerate(requests) for group in groups if group]
        self._remember(rows, requests)
        return [lane_groups[i] for i in torch.randperm(len(lane_groups), generator=draw).tolist()]

    def order(self, tensors: Sequence[torch.Tensor], number: int) -> torch.Tensor:
        """Return an order ``(n,)`` for the rows of a call that goes into one session.

        It follows from what each row holds, in the true order, so that who gets the rows cannot find that order.
        """
        sums = [t.flatten(1).sum(dim=1, dtype=torch.float64).tolist() for t in tensors if len(t)]
        drawn = generator(derive_seed("order", self._secret, number, sums))
        return torch.randperm(len(tensors[0]) if tensors else 0, generator=drawn)

    def _remember(self, rows: Rows, requests: list[list[list[int]]]) -> None:
        for k, groups in enumerate(requests):
            new = rows.at([row for group in groups for row in group])
            if k == len(self._seen):
                self._seen.append(new)
            else:
                old = self._seen[k]
                self._seen[k] = Rows(torch.cat([old.content, new.content]), torch.cat([old.image, new.image]))

"""Spreads the rows of calls over sessions of a package, so that no session sees two versions of one image.

A package that sees an image and its attacked copy can find the pair and answer for both with the smoother one. So the
rows of a call are divided among up to three sessions, called *lanes*; each is a process in namespaces of its own. Two
rows are versions of one image if they draw from the same random stream or, in calls without streams, if they look alike
when they are reduced to a few pixels.
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
"""The most sessions of one component in a task. A fourth version of an image shares a session with another version, but
is never in the same request."""
GLANCE, NEAR = 8, 0.1
"""Two images look alike if their means over GLANCE x GLANCE fields differ by less than NEAR, root mean square."""


@dataclass(frozen=True)
class Rows:
    """What says which of n rows are versions of one image.

    `content`: a digest of each row, int64 ``(n,)``. `image`: what versions of one image have in common: a digest of the
    random stream, int64 ``(n,)``, or the means over fields, float32 ``(n, d)``.
    """

    content: torch.Tensor
    image: torch.Tensor

    def at(self, positions: list[int]) -> Rows:
        """Return some rows."""
        return Rows(self.content[positions], self.image[positions])

    def versions(self, other: Rows) -> torch.Tensor:
        """Return which of n rows and m other rows are different versions of one image, bool ``(n, m)``."""
        if self.image.is_floating_point():
            distance = torch.cdist(self.image, other.image) / self.image.shape[1] ** 0.5
            same_image: torch.Tensor = distance < NEAR
        else:
            same_image = self.image[:, None] == other.image[None]
        different_content: torch.Tensor = self.content[:, None] != other.content[None]
        return same_image & different_content


def rows_of(call: Call, tensors: Mapping[str, torch.Tensor]) -> Rows | None:
    """Return `Rows` of the tensors of a call; None where nothing says which rows are versions of one image."""
    kinds = {name: call.arguments[name.partition(".")[0]] for name in tensors}
    streams = [t for name, t in tensors.items() if kinds[name].rows and isinstance(kinds[name], Randomness)]
    images = [t for name, t in tensors.items() if isinstance(kinds[name], ImageBatch)]
    contents = [t for name, t in tensors.items() if kinds[name].rows and not isinstance(kinds[name], Randomness)]
    if not contents or not (streams or images):
        return None
    image = _digests(streams) if streams else F.adaptive_avg_pool2d(images[0].float(), GLANCE).flatten(1)
    return Rows(_digests(contents), image)


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


class Lanes:
    """Spreads the rows of a task's calls over at most `LANES` sessions.

    The order of rows and the choice of lanes are random, with a seed that depends on the contents of all rows, and on
    the secret if there is one. No session knows all rows, so none can compute them; and the same task is spread in the
    same way each time.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._seen: list[Rows] = []
        """For each lane, the rows that its session has got in this task."""

    def spread(self, call: Call, tensors: Mapping[str, torch.Tensor], n: int) -> list[tuple[int, list[int]]]:
        """Return the requests into which a call with n rows is split: the number of the lane, and the rows for it.

        Each row goes to a lane whose session has seen the fewest versions of its image; a new lane is opened if every
        lane has seen one. Of equal lanes one is drawn.
        """
        rows = rows_of(call, tensors) if n else None
        if rows is None:
            return [(0, list(range(n)))]
        draw = generator(derive_seed("lanes", *([self._secret] if self._secret else []), rows.content.tolist()))
        is_version = rows.versions(rows).tolist()
        versions_of = [{other for other, flag in enumerate(flags) if flag} for flags in is_version]  # in this call
        seen_before = [rows.versions(seen).sum(dim=1).tolist() for seen in self._seen] or [[0] * n]  # lane, row
        requests: list[list[list[int]]] = [[[]] for _ in seen_before]  # for each lane, requests as lists of rows
        for row in torch.randperm(n, generator=draw).tolist():
            versions_in_lane = [
                seen_before[lane][row]
                + sum(other in versions_of[row] for request in lane_requests for other in request)
                for lane, lane_requests in enumerate(requests)
            ]
            if min(versions_in_lane) > 0 and len(requests) < LANES:
                requests.append([[]])
                seen_before.append([0] * n)
                versions_in_lane.append(0)
            best_lanes = [lane for lane, count in enumerate(versions_in_lane) if count == min(versions_in_lane)]
            lane = best_lanes[int(torch.randint(len(best_lanes), (1,), generator=draw))]
            fitting = next((request for request in requests[lane] if versions_of[row].isdisjoint(request)), None)
            if fitting is None:
                requests[lane].append([row])
            else:
                fitting.append(row)
        self._remember(rows, requests)
        flat = [(lane, request) for lane, lane_requests in enumerate(requests) for request in lane_requests if request]
        return [flat[i] for i in torch.randperm(len(flat), generator=draw).tolist()]

    def order(self, tensors: Sequence[torch.Tensor], number: int) -> torch.Tensor:
        """Return an order ``(n,)`` in which the rows of a call go into one session. `number`: that of the call.

        Its seed depends on the contents of the rows in their true order. A package that gets the rows in the new order
        cannot compute that seed, and so cannot find the true order.
        """
        sums = [t.flatten(1).sum(dim=1, dtype=torch.float64).tolist() for t in tensors if len(t)]
        drawn = generator(derive_seed("order", self._secret, number, sums))
        return torch.randperm(len(tensors[0]) if tensors else 0, generator=drawn)

    def _remember(self, rows: Rows, requests: list[list[list[int]]]) -> None:
        """Add the rows that each lane gets to the rows that it has seen."""
        for lane, lane_requests in enumerate(requests):
            new = rows.at([row for request in lane_requests for row in request])
            if lane == len(self._seen):
                self._seen.append(new)
            else:
                old = self._seen[lane]
                self._seen[lane] = Rows(torch.cat([old.content, new.content]), torch.cat([old.image, new.image]))

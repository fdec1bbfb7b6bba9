"""One call of a task, asked again in a fresh process, which must answer the same and give the same gradient.

Where each row stands for itself, some of the rows are asked for, in another order. So an answer or a gradient that
depends on the number of calls, on the time, or on the size and order of a batch is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.linalg import vector_norm

from imharness_submissions.sandbox.host import Session
from imharness_submissions.sandbox.wire import Message

STATE = (
    "answers otherwise when it is asked again in a fresh process: it keeps state between calls, or draws from other "
    "randomness than it is given"
)
TOLERANCE = 1e-4
"""How far an answer may be from the first one, as a share of the size of its numbers (`_allowed`, `_allowed_by_row`).

If each row stands for itself, the mean difference of a row counts, and its tolerance follows from this row: so huge
numbers in one row allow no differences in others. Otherwise the largest difference of the answer counts."""
GRADIENT_TOLERANCE = 0.05
"""How far a row's gradient may be from the first one, as a share of its norm."""
_ROUNDING = 1e-6
"""The rounding of float32, as a share of the largest number."""
_SMALLEST = 1e-37
"""What float32 cannot separate from 0."""


@dataclass
class Held:
    """A call, its answer, and the gradient that was asked for.

    Args:
        request: the call.
        answer: the first answer to it.
        rows: names of the tensors that have a row for each image; empty if rows depend on each other.
        wanted: names of the arguments whose gradients are recorded.
        number: of the call among those of its sort.
        upstream: the gradient with respect to each result that the caller sent; empty if it asked for no gradients.
        gradients: the gradient of each argument in `wanted` that was returned for it.
    """

    request: Message
    answer: Message
    rows: frozenset[str]
    wanted: list[str]
    number: int
    upstream: Mapping[str, torch.Tensor] = field(default_factory=dict)
    gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Message, reply: Message, rows: frozenset[str], number: int) -> Held:
        """Keep a call, its answer and number; `rows` are names of arguments, none where rows depend on each other."""
        sent = {name: t.detach().cpu().clone() for name, t in request.tensors.items()}
        facts = {name: value for name, value in request.facts.items() if name != "grad"}
        answer = Message("result", {}, {name: t.detach() for name, t in reply.tensors.items()})
        by_row = frozenset(name for name in sent if name.partition(".")[0] in rows)
        return cls(Message("call", facts, sent), answer, by_row, request.names("grad"), number)

    def saw_gradient(
        self, number: int, upstream: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor]
    ) -> None:
        """Keep the gradient of this call; that of another call is ignored."""
        if self.wanted and number == self.number and self.rows.issuperset(self.wanted):
            self.upstream = {name: t.detach().cpu().clone() for name, t in upstream.items()}
            self.gradients = dict(gradients)

    def is_answered_otherwise(self, session: Session, built: int, draw: torch.Generator) -> bool:
        """Ask a fresh session for some of the rows in an order drawn from `draw`, and compare."""
        order = self._order(draw)
        sent = {name: t[order] if name in self.rows else t for name, t in self.request.tensors.items()}
        facts = {**self.request.facts, "built": built}
        if self.wanted:
            facts["grad"] = self.wanted
        again = session.request("call", facts, sent)
        after = {**sent, **again.tensors}
        if not all(self._close(before, after.get(name), order) for name, before in self.answer.tensors.items()):
            return True
        if not self.upstream:
            return False
        upstream = {name: t[order] for name, t in self.upstream.items()}
        gradients = session.request("backward", {"handle": again.whole("handle")}, upstream).tensors
        same = gradients.keys() == self.gradients.keys()
        return not same or not all(_aligned(g[order], gradients[name]) for name, g in self.gradients.items())

    def _order(self, draw: torch.Generator) -> torch.Tensor:
        """Return which rows are asked for, in which order: of n, between 1 and n // 2 + 1, at random."""
        n = min((len(self.request.tensors[name]) for name in self.rows), default=0)
        most = int(torch.randint(n // 2 + 1, (1,), generator=draw)) + 1
        return torch.randperm(n, generator=draw)[:most]

    def _close(self, before: torch.Tensor, after: torch.Tensor | None, order: torch.Tensor) -> bool:
        first = before[order] if self.rows else before
        if after is None or after.shape != first.shape:
            return False
        if not first.is_floating_point():
            return torch.equal(first, after)
        if not torch.equal(first.isfinite(), after.isfinite()):
            return False
        off = (first.double() - after.double()).abs().nan_to_num()
        if not off.numel():
            return True
        if not self.rows:
            return float(off.max()) <= _allowed(first)
        off = off.flatten(1).mean(dim=1) if off.ndim > 1 else off
        return bool((off <= _allowed_by_row(before)[order]).all())


def _allowed(answer: torch.Tensor) -> float:
    """Return how far a number of an answer may be off if rows depend on each other.

    For several scores ``(n,)`` it is `TOLERANCE` times their range. For any other tensor it is `TOLERANCE` times the
    largest absolute value, but at least `TOLERANCE`.
    """
    numbers = answer.double().nan_to_num()
    if numbers.ndim != 1 or len(numbers) == 1:
        return TOLERANCE * max(1.0, float(numbers.abs().max()))
    return TOLERANCE * float(numbers.max() - numbers.min())


def _allowed_by_row(answer: torch.Tensor) -> torch.Tensor:
    """Return how far each row of an answer may be off in the mean, float64 ``(n,)``.

    Let s_i be the largest absolute value of row i.

    - Several scores y ``(n,)``: `TOLERANCE` median_j |y_i - y_j| + `_ROUNDING` s_i; the median is over all j except i.
    - One score ``(1,)``: `TOLERANCE` max(s_1, 1).
    - Rows of numbers ``(n, ...)``: `TOLERANCE` max(s_i, min(median_j s_j, 1)). The median is for an image that is black
      among others, because it is computed with their rounding.
    """
    numbers = answer.double().nan_to_num()
    sizes = numbers.abs().flatten(1).amax(dim=1) if numbers.ndim > 1 else numbers.abs()
    if numbers.ndim > 1 or len(numbers) == 1:
        usual = sizes.median() if numbers.ndim > 1 else torch.ones_like(sizes[0])
        return TOLERANCE * sizes.clamp(min=float(usual.clamp(max=1.0)))
    apart = (numbers[:, None] - numbers[None]).abs().fill_diagonal_(torch.nan)
    return TOLERANCE * apart.nanmedian(dim=1).values + _ROUNDING * sizes


def _aligned(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Say whether the gradients of all rows agree: |g - g'| <= `GRADIENT_TOLERANCE` |g| + `_SMALLEST` d for each row g.

    d is how many numbers a row has; the last term is what float32 cannot separate from 0.
    """
    if before.shape != after.shape:
        return False
    first, second = before.double().flatten(1), after.double().flatten(1)
    allowed = GRADIENT_TOLERANCE * vector_norm(first, dim=1) + _SMALLEST * first.shape[1]
    return bool((vector_norm(first - second, dim=1) <= allowed).all())

"""Thresholds learnt on shadow data, for a value that is higher for members.

Song & Mittal (USENIX Security 2021), section 4.1: member if value >= threshold, where the threshold of a class
maximises the balanced accuracy on the shadow model's rows of that class.
"""

from abc import abstractmethod

import numpy as np
import torch
from pydantic import Field

from harness.api import InferMembership, MembershipEvaluator, MembershipQuery, Scores

Array = np.ndarray


def class_thresholds(values: Array, member: Array, labels: Array, classes: int) -> Array:
    """Return float32 ``(classes,)``: for each class the value that, as a threshold, maximises balanced accuracy.

    O(n log n): class, value and membership are packed into one integer and sorted once. Among equally good values of
    a class the first in the order members, then non-members, wins. A class with members only gets -inf (all are
    members), one with non-members only +inf, and one without rows NaN. NaN among the values counts as -inf.

    Args:
        values: float32 ``(n,)``.
        member: bool ``(n,)``.
        labels: int64 ``(n,)`` in [0, classes).
    """
    keys = _packed(values, member, labels)
    found = np.full(classes, np.nan, dtype=np.float32)
    ordered = np.sort(keys)
    of_class, inside = (ordered >> np.uint64(33)).astype(np.int64), (ordered & np.uint64(1)).astype(np.int64)
    members, rows = np.bincount(of_class, inside, classes), np.bincount(of_class, minlength=classes)
    others = rows - members
    found[(members > 0) & (others == 0)], found[(members == 0) & (others > 0)] = -np.inf, np.inf
    first = np.flatnonzero(np.r_[True, (ordered[1:] >> np.uint64(1)) != (ordered[:-1] >> np.uint64(1))])
    own = of_class[first]
    kept = (members[own] > 0) & (others[own] > 0)
    first, own = first[kept], own[kept]
    if len(first) == 0:
        return found
    start = np.r_[0, np.cumsum(rows)][own]
    before = np.r_[0, np.cumsum(inside)]
    missed = before[first] - before[start]
    spared = first - start - missed
    balanced = (members[own] - missed) / members[own] + spared / others[own]
    edges = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    best = balanced == np.repeat(np.maximum.reduceat(balanced, edges), np.diff(np.r_[edges, len(own)]))
    return _earliest(found, keys, member, ordered[first[best]] >> np.uint64(1))


def _packed(values: Array, member: Array, labels: Array) -> Array:
    """Return uint64 that sort by class, then value, then membership."""
    clean = np.where(np.isnan(values), np.float32(-np.inf), values).astype(np.float32) + np.float32(0)
    bits = clean.view(np.uint32)
    flipped = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    return labels.astype(np.uint64) << np.uint64(33) | flipped << np.uint64(1) | member.astype(np.uint64)


def _earliest(found: Array, keys: Array, member: Array, best: Array) -> Array:
    """Fill in, per class, the one of its best values that comes first: members before non-members, then as given."""
    values = keys >> np.uint64(1)
    place = np.searchsorted(best, values).clip(max=len(best) - 1)
    rows = np.flatnonzero(best[place] == values)
    rows = rows[np.argsort(~member[rows], kind="stable")]
    of_class, first = np.unique(values[rows] >> np.uint64(32), return_index=True)
    bits = (values[rows[first]] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    found[of_class.astype(np.int64)] = np.where(bits >> 31, bits & np.uint32(0x7FFFFFFF), ~bits).view(np.float32)
    return found


def margins(query: MembershipQuery, shadow: torch.Tensor, target: torch.Tensor, per_class: bool) -> torch.Tensor:
    """Return ``(m,)`` target value minus threshold: >= 0 says member. A class without shadow rows uses all classes'."""
    values, member, labels = (x.cpu().numpy() for x in (shadow, query.shadow_member, query.shadow_labels))
    overall = class_thresholds(values, member, np.zeros_like(labels), 1)
    of_row = torch.from_numpy(overall).expand(len(target))
    if per_class:
        classes = query.shadow_outputs.shape[1]
        found = class_thresholds(values, member, labels, classes)
        of_row = torch.from_numpy(np.where(np.isnan(found), overall, found))[query.target_labels.cpu()]
    scale = float(torch.finfo(torch.float32).max) / 4
    target = torch.nan_to_num(target, nan=-torch.inf)
    return target.clamp(-scale, scale) - of_row.to(target).clamp(-scale, scale)


class ThresholdEvaluator(MembershipEvaluator):
    """Compares a value of the model's output with a threshold learnt on shadow data."""

    per_class: bool = Field(default=True, description="One threshold per class; otherwise one for all.")

    @abstractmethod
    def value(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return ``(n,)``, higher for members, from probabilities ``(n, classes)`` and int64 labels ``(n,)``."""

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: value minus threshold."""

        def infer(query: MembershipQuery) -> Scores:
            shadow = self.value(query.shadow_outputs, query.shadow_labels)
            target = self.value(query.target_outputs, query.target_labels)
            return margins(query, shadow, target, self.per_class)

        return infer

"""Thresholds that are learnt on shadow rows, for evaluators whose value is higher for members.

Song & Mittal (USENIX Security 2021), section 3.1.2: member if value >= threshold (equation 6), where the threshold
of a class maximises the balanced accuracy on the shadow model's rows of that class.
"""

from abc import abstractmethod

import numpy as np
import torch
from pydantic import Field

from imharness.membership import InferMembership, MembershipEvaluator, MembershipQuery, Scores

Array = np.ndarray
PART = 16_384
"""The number of rows whose values are computed at once."""


def class_thresholds(values: Array, member: Array, labels: Array, classes: int) -> Array:
    """Return float32 ``(classes,)``: for each class the value that, as a threshold, maximises balanced accuracy.

    O(n log n): class, value and membership are packed into one integer and sorted once. If several values of a class
    are equally good, the value of the earliest member that has one of them wins; only if no member has one, that of the
    earliest non-member. A class with only members gets -inf (all are members), one with only non-members +inf, and one
    without rows NaN. NaN among the values counts as -inf.

    Args:
        values: float32 ``(n,)``.
        member: bool ``(n,)``.
        labels: int64 ``(n,)`` in [0, classes).
    """
    # 1. Sort the rows by class, then value; count rows, members and non-members of each class.
    keys = _packed(values, member, labels)
    ordered = np.sort(keys)
    members_before = np.r_[0, np.cumsum(ordered & np.uint64(1), dtype=np.int64)]
    edges = np.searchsorted(ordered, np.arange(classes + 1, dtype=np.uint64) << np.uint64(33))  # where a class begins
    rows, members = np.diff(edges), np.diff(members_before[edges])
    others = rows - members
    thresholds = np.full(classes, np.nan, dtype=np.float32)
    thresholds[(members > 0) & (others == 0)], thresholds[(members == 0) & (others > 0)] = -np.inf, np.inf
    # 2. Find the index of the first row of each distinct value of a class: keys differ in more than membership there.
    first = np.flatnonzero(np.r_[True, (ordered[1:] ^ ordered[:-1]) > 1])
    counts = np.diff(np.searchsorted(first, edges))
    class_index = np.repeat(np.arange(classes), counts)  # the class of each distinct value
    # 3. With such a value as the threshold, the rows of its class before it are called non-members: members among them
    # are `missed`, non-members are `spared`. `balanced` is the sum of both rates, twice the balanced accuracy.
    missed = members_before[first] - members_before[edges[class_index]]
    spared = first - edges[class_index] - missed
    with np.errstate(invalid="ignore", divide="ignore"):
        balanced = (members[class_index] - missed) / members[class_index] + spared / others[class_index]
    # 4. Take the values whose sum is the highest of their class, and settle ties.
    has_both = (members > 0) & (others > 0)
    starts = np.r_[0, np.cumsum(counts)[:-1]][counts > 0]  # where the values of a class begin in `balanced`
    highest = np.full(classes, np.nan)
    highest[counts > 0] = np.maximum.reduceat(balanced, starts)
    best = first[(balanced == highest[class_index]) & has_both[class_index]]
    return _earliest(thresholds, keys, ordered[best] >> np.uint64(1), member, labels)


def _packed(values: Array, member: Array, labels: Array) -> Array:
    """Return keys uint64 ``(n,)`` that sort by class, then value, then membership.

    The class is in the bits from 33 on, the value in bits 1 to 32, membership in bit 0. To make the bits of a float32
    sort as the number does, the sign bit of a positive number is set, and all bits of a negative number are flipped.
    """
    clean = np.where(np.isnan(values), np.float32(-np.inf), values).astype(np.float32) + np.float32(0)
    bits = clean.view(np.uint32)
    flipped = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    return labels.astype(np.uint64) << np.uint64(33) | flipped << np.uint64(1) | member.astype(np.uint64)


def _earliest(thresholds: Array, keys: Array, best: Array, member: Array, labels: Array) -> Array:
    """Return the thresholds with one of the best values for each class that has any: that of the first of its rows.

    Members come before non-members, and then rows in their own order. `thresholds` is changed in place.

    Args:
        thresholds: float32 ``(classes,)``.
        keys: what `_packed` returned for the rows.
        best: the best values: keys of class and value without the bit of membership, sorted.
        member, labels: as in `class_thresholds`.
    """
    of_class, first, ties = np.unique(best >> np.uint64(32), return_index=True, return_counts=True)
    thresholds[of_class.astype(np.int64)] = _unpacked(best[first])
    for label in of_class[ties > 1].astype(np.int64):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(~member[rows], kind="stable")]
        values = keys[rows] >> np.uint64(1)
        thresholds[label] = _unpacked(values[np.isin(values, best)][:1])[0]
    return thresholds


def _unpacked(values: Array) -> Array:
    """Return the float32 values of keys without their bit of membership; the reverse of `_packed`."""
    bits = (values & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return np.where(bits >> 31, bits & np.uint32(0x7FFFFFFF), ~bits).view(np.float32)


def margins(query: MembershipQuery, shadow: torch.Tensor, target: torch.Tensor, per_class: bool) -> torch.Tensor:
    """Return ``(m,)`` target value minus threshold: >= 0 means member. A class without shadow rows uses all rows."""
    values, member, labels = (x.cpu().numpy() for x in (shadow, query.shadow_member, query.shadow_labels))
    overall = class_thresholds(values, member, np.zeros_like(labels), 1)
    of_row = torch.from_numpy(overall).expand(len(target))
    if per_class:
        classes = query.shadow_outputs.shape[1]
        thresholds = class_thresholds(values, member, labels, classes)
        of_row = torch.from_numpy(np.where(np.isnan(thresholds), overall, thresholds))[query.target_labels.cpu()]
    largest = float(torch.finfo(torch.float32).max) / 4  # infinity less infinity would be NaN
    target = torch.nan_to_num(target, nan=-torch.inf)
    return target.clamp(-largest, largest) - of_row.to(target).clamp(-largest, largest)


class ThresholdEvaluator(MembershipEvaluator):
    """Compares a value of the model's output with a threshold learnt on shadow data."""

    per_class: bool = Field(default=True, description="One threshold per class; otherwise one for all.")

    @abstractmethod
    def value(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return ``(n,)``, higher for members, from probabilities ``(n, classes)`` and int64 labels ``(n,)``."""

    def values(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return `value` of all rows, computed in parts so that the memory does not grow with the rows."""
        chunks = zip(outputs.split(PART), labels.split(PART), strict=True)
        return torch.cat([self.value(*chunk) for chunk in chunks])

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: value minus threshold."""

        def infer(query: MembershipQuery) -> Scores:
            shadow = self.values(query.shadow_outputs, query.shadow_labels)
            target = self.values(query.target_outputs, query.target_labels)
            return margins(query, shadow, target, self.per_class)

        return infer

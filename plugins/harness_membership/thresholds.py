"""Thresholds learnt on shadow data, for a value that is higher for members.

Song & Mittal (USENIX Security 2021), section 4.1: member if value >= threshold, where the threshold of a class
maximises the balanced accuracy on the shadow model's rows of that class.
"""

from abc import abstractmethod

import torch
from pydantic import Field

from harness.api import InferMembership, MembershipEvaluator, MembershipQuery, Scores


def best_threshold(values: torch.Tensor, member: torch.Tensor) -> torch.Tensor:
    """Return the value that, as a threshold, maximises balanced accuracy; O(n log n).

    `values` ``(n,)`` and `member` bool ``(n,)``. Among equally good ones the first in the order members, then
    non-members, wins. Without members or without non-members every threshold is as good: +inf (nobody is a member)
    when there are no members, -inf when there are no non-members.
    """
    inside, outside = values[member], values[~member]
    if len(inside) == 0 or len(outside) == 0:
        return values.new_tensor(torch.inf if len(inside) == 0 else -torch.inf)
    candidates = torch.cat([inside, outside])
    hit = len(inside) - torch.searchsorted(inside.sort().values, candidates)
    spared = torch.searchsorted(outside.sort().values, candidates)
    balanced = hit.double() / len(inside) + spared.double() / len(outside)
    return candidates[torch.argmax((balanced == balanced.max()).to(torch.uint8))]


def margins(query: MembershipQuery, shadow: torch.Tensor, target: torch.Tensor, per_class: bool) -> torch.Tensor:
    """Return ``(m,)`` target value minus threshold: >= 0 says member. A class without shadow rows uses all classes'."""
    overall = best_threshold(shadow, query.shadow_member)
    threshold = overall.expand(len(target)).clone()
    if per_class:
        for label in torch.unique(query.target_labels).tolist():
            rows = query.shadow_labels == label
            if rows.any():
                found = best_threshold(shadow[rows], query.shadow_member[rows])
                threshold[query.target_labels == label] = found
    scale = float(torch.finfo(target.dtype).max) / 4
    return target.clamp(-scale, scale) - threshold.clamp(-scale, scale)


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

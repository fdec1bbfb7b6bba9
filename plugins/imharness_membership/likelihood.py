"""The base of attacks with reference models: log odds, and a threshold learnt on one of the references.

A reference model whose members are known stands in for the target: its statistic, computed from the other references,
gives the threshold that separates its members best.
"""

from abc import abstractmethod

import numpy as np
import torch

from imharness.errors import HarnessError
from imharness.membership import Evidence, InferMembership, MembershipEvaluator, MembershipQuery, References, Scores
from imharness_membership.thresholds import class_thresholds

FLOOR = 1e-30
"""Probabilities are raised to at least this before the logarithm."""
SCALE = 1e30
"""Scores are clipped to this magnitude, so that none is infinite."""


def log_odds(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return log p_y minus the log of the sum of the others, ``(n,)``: exact near p_y = 1, where 1 - p_y is not.

    Carlini et al., "Membership Inference Attacks From First Principles" (IEEE S&P 2022), section V-B.
    """
    true = outputs.gather(1, labels[:, None])[:, 0]
    rest = outputs.scatter(1, labels[:, None], 0).sum(dim=1)
    return true.clamp(min=FLOOR).log() - rest.clamp(min=FLOOR).log()


class ReferenceEvaluator(MembershipEvaluator):
    """Compares the target's answer on a row with those of reference models."""

    reads = frozenset[Evidence]({"references"})

    @property
    def needs_inside(self) -> bool:
        """Whether some reference models must have been trained on the rows."""
        return False

    @abstractmethod
    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return ``(m,)``, higher for members.

        `observed` ``(m,)`` and `population` ``(p,)`` are log odds of the model under attack. `trained`: how many models
        the adversary trained; for the threshold, one of them is under attack.
        """

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: statistic minus the threshold learnt on the first reference model, if it has one."""

        def infer(query: MembershipQuery) -> Scores:
            references = query.references
            if references is None:
                raise HarnessError(f"{self.label} needs reference models; the query has none")
            if len(references.log_odds) < 3:
                raise HarnessError(f"{self.label} needs at least 3 reference models, got {len(references.log_odds)}")
            observed = log_odds(query.target_outputs, query.target_labels)
            trained = len(references.log_odds)
            scores = self.statistic(observed, references.target_population_log_odds, references, trained)
            views = references.view_log_odds
            rest = References(
                references.log_odds[1:],
                references.member[1:],
                references.population_log_odds[1:],
                references.population_log_odds[0],
                None if views is None else views[1:],
                None if views is None else views[0],
            )
            stand_in = self.statistic(references.log_odds[0], references.population_log_odds[0], rest, trained)
            order = stand_in.argsort(stable=True)  # the lowest of equally good thresholds, whatever the order of rows
            values, member = stand_in[order].cpu().numpy(), references.member[0][order].cpu().numpy()
            threshold = class_thresholds(values, member, np.zeros(len(values), dtype=np.int64), 1)
            clean = torch.nan_to_num(scores, nan=-SCALE).clamp(-SCALE, SCALE)
            learned = np.isfinite(threshold[0])  # a reference trained on none of the rows, or on all, teaches none
            return clean - float(np.clip(threshold[0], -SCALE, SCALE)) if learned else clean

        return infer

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
    """Return the log odds of the true class, ``(n,)``: log p_y minus the log of the sum of the other probabilities.

    The sum is exact where p_y is near 1, and 1 - p_y is not. Carlini et al., "Membership Inference Attacks From First
    Principles" (IEEE S&P 2022), section V-B.
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
        """Return the score of each row under attack, ``(m,)``, higher for members.

        Args:
            observed: log odds of the model under attack for these rows, ``(m,)``.
            population: its log odds for the rows of the population, ``(p,)``.
            references: the answers of the reference models.
            trained: how many models the adversary trained. It is one more than the references where one of these models
                is under attack, to find the threshold.
        """

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the statistic minus a threshold.

        The threshold is the best one for an attack by the other references on the first reference model. If this model
        was trained on all rows, or on none, there is no threshold, and the statistic itself is returned.
        """

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
            of_first = self.statistic(references.log_odds[0], references.population_log_odds[0], rest, trained)
            order = of_first.argsort(stable=True)  # the lowest of equally good thresholds, whatever the order of rows
            values, member = of_first[order].cpu().numpy(), references.member[0][order].cpu().numpy()
            threshold = class_thresholds(values, member, np.zeros(len(values), dtype=np.int64), 1)[0]
            clean = torch.nan_to_num(scores, nan=-SCALE).clamp(-SCALE, SCALE)
            if not np.isfinite(threshold):
                return clean
            return clean - float(np.clip(threshold, -SCALE, SCALE))

        return infer

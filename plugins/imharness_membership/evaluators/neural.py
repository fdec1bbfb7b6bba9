"""The NN attack: a network learns membership from shadow outputs and labels.

Nasr, Shokri & Houmansadr, "Machine Learning with Membership Privacy using Adversarial Regularization" (CCS 2018),
section 4.3: one branch for the outputs, one for the label, both joined; as benchmarked by Song & Mittal.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.membership import Evidence, InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.attack_training import LearntEvaluator
from imharness_membership.stacked import Weights, through


class AttackNet(nn.Module):
    """Outputs ``(n, classes)`` and labels ``(n,)`` -> logit of membership ``(n,)``."""

    def __init__(self, classes: int, width: int = 1024) -> None:
        super().__init__()
        self.outputs = _layers(classes, width, width // 2, 64)
        self.labels = _layers(classes, width // 2, 64)
        self.joined = nn.Sequential(*_layers(128, width // 4, 64), nn.Linear(64, 1))

    def forward(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        one_hot = F.one_hot(labels, outputs.shape[1]).to(outputs.dtype)
        return self.joined(torch.cat([self.outputs(outputs), self.labels(one_hot)], dim=1))[:, 0]

    def stacked(self, weights: Weights, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the logits ``(K, n)`` of K such networks for outputs ``(K, n, classes)`` and labels ``(K, n)``."""
        one_hot = F.one_hot(labels, outputs.shape[2]).to(outputs.dtype)
        seen = [through(self.outputs, weights, outputs, "outputs."), through(self.labels, weights, one_hot, "labels.")]
        return through(self.joined, weights, torch.cat(seen, dim=2), "joined.")[..., 0]


def _layers(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(m for i, o in pairwise(widths) for m in (nn.Linear(i, o), nn.ReLU())))


class Neural(LearntEvaluator):
    """Predicts membership with a neural network trained on shadow outputs and labels."""

    info = Info(id="harness/neural", version="2", paper="nasr2018")
    width: int = Field(
        default=1024,
        ge=8,
        le=8192,
        description="Units of the first layer; others have a half or a quarter of them, or 64.",
    )

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network."""

        learn = self.learner(lambda inputs: AttackNet(inputs[0].shape[1], self.width))

        def infer(query: MembershipQuery) -> Scores:
            network = learn((query.shadow_outputs, query.shadow_labels), query.shadow_member)
            with torch.no_grad():
                return network(query.target_outputs, query.target_labels)

        return infer


class NeuralKnown(Neural):
    """The same network, trained on rows of the target whose membership the adversary knows.

    This is the attack of Nasr, Shokri & Houmansadr, who give the adversary a part of the target's members, and the NN
    attack that Song & Mittal compare with (USENIX Security 2021, section 2.2.1).
    """

    info = Info(id="harness/neural-known", version="1", paper="nasr2018")
    opt_in = True
    reads = frozenset[Evidence]({"known"})


class NeuralRounded(Neural):
    """The same network, which sees the target's probabilities rounded, so that small perturbations vanish.

    This is the first of the two attacks by which Jia et al. (CCS 2019) let an adversary answer MemGuard; Song & Mittal
    (USENIX Security 2021, section 3.3.3) report that it fails where the perturbation is large.
    """

    info = Info(id="harness/neural-rounded", version="1", paper="jia2019")
    opt_in = True
    decimals: int = Field(default=1, ge=0, le=6, description="Decimals that are kept of the target's probabilities.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network for rounded outputs."""
        infer = super().build(device)
        return lambda query: infer(replace(query, target_outputs=query.target_outputs.round(decimals=self.decimals)))


class NeuralRobust(Neural):
    """The same network, trained robustly, so that small perturbations of the target's probabilities change little.

    This is the second of the two attacks by which Jia et al. (CCS 2019) let an adversary answer MemGuard; Song & Mittal
    (USENIX Security 2021, section 3.3.3) report that it generalises badly. Training is that of Madry et al. (ICLR
    2018): each step is taken where the loss is largest near the rows. Size and steps of the perturbation are ours.
    """

    info = Info(id="harness/neural-robust", version="1", paper="jia2019")
    opt_in = True
    epsilon: float = Field(default=0.1, gt=0, le=1, description="Largest change of a probability in training.")
    steps: int = Field(default=7, ge=1, le=100, description="Steps by which the change is sought.")

    def hardened(
        self, network: nn.Module, inputs: Sequence[torch.Tensor], truth: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        """Return the probabilities near the rows' own where the loss is largest, and the labels."""
        outputs, labels = inputs
        moved = outputs
        for _ in range(self.steps):
            moved = moved.detach().requires_grad_(True)
            loss = F.binary_cross_entropy_with_logits(network(moved, labels), truth, reduction="sum")
            [slope] = torch.autograd.grad(loss, moved)
            moved = moved.detach() + 2.5 * self.epsilon / self.steps * slope.sign()
            moved = moved.clamp(outputs - self.epsilon, outputs + self.epsilon).clamp(0, 1)
        return moved, labels


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Neural(), NeuralKnown(), NeuralRounded(), NeuralRobust()]

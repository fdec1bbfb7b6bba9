"""The white-box attack: a network learns membership from gradients, outputs and labels of a shadow model's rows.

Nasr, Shokri & Houmansadr, "Comprehensive Privacy Analysis of Deep Learning" (IEEE S&P 2019), section III: gradients of
the last layer, which are the most informative, go through a convolution that spans the layer's inputs; outputs, loss
and label have branches of their own. Convolutions over earlier layers are left out.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.errors import ContractError
from imharness.membership import Evidence, InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.attack_training import LearntEvaluator
from imharness_membership.likelihood import log_odds

FILTERS = 32
AT_ONCE = 4096
"""The number of the target's rows that the network sees at a time."""


class WhiteBoxNet(nn.Module):
    """Error ``(n, classes)``, features ``(n, d)``, labels ``(n,)`` -> logit of membership ``(n,)``.

    `error`: outputs minus one-hot labels; `features`: inputs of the last layer. Their outer product is the gradient.
    """

    def __init__(self, classes: int, size: int, width: int) -> None:
        super().__init__()
        self.filters = nn.Linear(size, FILTERS)
        self.gradient = nn.Sequential(nn.Linear(classes * FILTERS, width), nn.ReLU(), nn.Linear(width, 64), nn.ReLU())
        self.outputs = nn.Sequential(nn.Linear(2 * classes + 1, width), nn.ReLU(), nn.Linear(width, 64), nn.ReLU())
        self.joined = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, error: torch.Tensor, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        one_hot = F.one_hot(labels, error.shape[1]).to(error.dtype)
        outputs = error + one_hot
        gradient = F.relu(self.filters(error[:, :, None] * features[:, None, :])).flatten(1)
        seen = torch.cat([outputs, one_hot, log_odds(outputs, labels)[:, None]], dim=1)
        return self.joined(torch.cat([self.gradient(gradient), self.outputs(seen)], dim=1))[:, 0]


class WhiteBox(LearntEvaluator):
    """Predicts membership from last-layer gradients, outputs and labels, with a network trained on a shadow model."""

    info = Info(id="harness/white-box", version="2", paper="nasr2019")
    reads = frozenset[Evidence]({"gradients"})
    width: int = Field(default=256, ge=8, le=8192, description="Units of the first layer of each branch.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network."""

        learn = self.learner(lambda inputs: WhiteBoxNet(inputs[0].shape[1], inputs[1].shape[1], self.width))

        def infer(query: MembershipQuery) -> Scores:
            if query.gradients is None:
                raise ContractError(f"{self.info.id} needs gradients; run it in a track, which has the model")
            gradients = query.gradients
            shadow = (gradients.shadow_error, gradients.shadow_features, query.shadow_labels)
            network = learn(shadow, query.shadow_member)
            target = (gradients.target_error, gradients.target_features, query.target_labels)
            batches = zip(*(tensor.split(AT_ONCE) for tensor in target), strict=True)
            with torch.no_grad():
                return torch.cat([network(*batch) for batch in batches])

        return infer


class WhiteBoxKnown(WhiteBox):
    """The same network, trained on rows of the target whose membership the adversary knows, as Nasr et al. do."""

    info = Info(id="harness/white-box-known", version="1", paper="nasr2019")
    opt_in = True
    reads = frozenset[Evidence]({"gradients", "known"})


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [WhiteBox(), WhiteBoxKnown()]

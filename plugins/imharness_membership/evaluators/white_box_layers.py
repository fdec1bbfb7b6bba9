"""The white-box attack on all layers: a network learns membership from the gradients of every layer.

Nasr, Shokri & Houmansadr, "Comprehensive Privacy Analysis of Deep Learning" (IEEE S&P 2019), section III: each layer's
gradient goes through a convolution that spans the inputs of the layer, and then through layers of its own; outputs,
label and loss have a branch, too. The gradient of a linear layer is the outer product of slopes (the loss by the
layer's output) and inputs. A kernel's answer to it is slopes x (kernel . inputs), so the product is never computed. One
difference to the paper: of the convolutions, only the norms of their gradients are read.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.errors import ContractError
from imharness.membership import Evidence, InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.attack_training import Learn, LearntEvaluator
from imharness_membership.likelihood import log_odds

LEAST = 1e-12
"""The smallest norm of a gradient whose logarithm is distinguished from others."""
ASKED = 1024
"""The number of rows that are answered at once."""


def convolved(kernels: nn.Linear, inputs: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """Return the answers of kernels ``(n, units, kernels)`` to the gradients of a linear layer.

    The result is ``kernels(slopes[:, :, None] * inputs[:, None, :])``, without that product.

    Args:
        kernels: a linear map from the layer's inputs to the number of kernels.
        inputs: inputs of the layer, ``(n, inputs)``.
        slopes: derivatives of the loss by the layer's outputs, ``(n, units)``.
    """
    return slopes[:, :, None] * F.linear(inputs, kernels.weight)[:, None, :] + kernels.bias


class AllLayersNet(nn.Module):
    """Inputs, slopes and norms of all layers, and labels ``(n,)`` -> logit of membership ``(n,)``."""

    def __init__(self, sizes: tuple[tuple[int, int], ...], norms: int, kernels: int, width: int) -> None:
        super().__init__()
        self.sizes, classes = sizes, sizes[-1][1]
        self.kernels = nn.ModuleList(nn.Linear(inputs, kernels) for inputs, _ in sizes)
        self.gradients = nn.ModuleList(_branch(units * kernels, width) for _, units in sizes)
        self.outputs = _branch(2 * classes + 1, width)
        self.norms = _branch(norms, width) if norms else None
        self.joined = nn.Sequential(nn.Linear(64 * (len(sizes) + 1 + bool(norms)), 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(
        self, inputs: torch.Tensor, slopes: torch.Tensor, norms: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        layer_inputs = inputs.split([size for size, _ in self.sizes], dim=1)
        by_output = slopes.split([size for _, size in self.sizes], dim=1)
        one_hot = F.one_hot(labels, by_output[-1].shape[1]).to(slopes.dtype)
        outputs = by_output[-1] + one_hot
        encoded = [self.outputs(torch.cat([outputs, one_hot, log_odds(outputs, labels)[:, None]], dim=1))]
        for kernels, branch, x, slope in zip(self.kernels, self.gradients, layer_inputs, by_output, strict=True):
            encoded.append(branch(F.relu(convolved(kernels, x, slope)).flatten(1)))
        if self.norms is not None:
            encoded.append(self.norms(norms.clamp(min=LEAST).log()))
        return self.joined(torch.cat(encoded, dim=1))[:, 0]


def _branch(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, 64), nn.ReLU())


class WhiteBoxLayers(LearntEvaluator):
    """Predicts membership from the gradients of all layers, with a network trained on a shadow model."""

    info = Info(id="harness/white-box-layers", version="1", paper="nasr2019")
    opt_in = True
    reads = frozenset[Evidence]({"layers"})
    kernels: int = Field(default=32, ge=1, le=1000, description="Kernels over the gradient of each linear layer.")
    width: int = Field(default=256, ge=8, le=8192, description="Units of the first layer of each branch.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network."""

        learners: dict[tuple[tuple[int, int], ...], Learn] = {}

        def infer(query: MembershipQuery) -> Scores:
            if query.layers is None:
                raise ContractError(f"{self.info.id} needs gradients; run it in a track, which has the model")
            layers = query.layers
            sizes = tuple((int(inputs), int(units)) for inputs, units in layers.sizes)
            if sizes not in learners:
                learners[sizes] = self.learner(
                    lambda tensors: AllLayersNet(sizes, tensors[2].shape[1], self.kernels, self.width)
                )
            shadow = (layers.shadow_inputs, layers.shadow_slopes, layers.shadow_norms, query.shadow_labels)
            network = learners[sizes](shadow, query.shadow_member)
            target = (layers.target_inputs, layers.target_slopes, layers.target_norms, query.target_labels)
            batches = zip(*(tensor.split(ASKED) for tensor in target), strict=True)
            with torch.no_grad():
                return torch.cat([network(*batch) for batch in batches])

        return infer


class WhiteBoxLayersKnown(WhiteBoxLayers):
    """The same network, trained on rows of the target whose membership the adversary knows: Nasr et al.'s attack."""

    info = Info(id="harness/white-box-layers-known", version="1", paper="nasr2019")
    opt_in = True
    reads = frozenset[Evidence]({"layers", "known"})


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [WhiteBoxLayers(), WhiteBoxLayersKnown()]

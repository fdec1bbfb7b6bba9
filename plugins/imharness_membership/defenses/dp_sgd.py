"""DP-SGD: the gradient of every row is clipped, and noise is added to their sum.

Abadi et al., "Deep Learning with Differential Privacy" (CCS 2016), algorithm 1.
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch.func import functional_call, grad, vmap

from imharness.errors import HarnessError
from imharness.membership import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from imharness_membership.accounting import epsilon_of
from imharness_membership.augmenting import augmented
from imharness_membership.training import descent_of, generator_on, rate_after

AT_ONCE = 2**25
"""The number of values of the gradients of single rows that are held at a time."""
PLAIN = (torch.nn.Flatten, torch.nn.Linear, torch.nn.ReLU, torch.nn.Sigmoid, torch.nn.Tanh)
"""The layers of networks for `_plain_sum`, where a row's gradient of a weight matrix is a product of two vectors."""
Gradients = dict[str, torch.Tensor]
"""Name of a parameter -> gradient."""


class DpSgd(MembershipTraining):
    """Differentially private training: every row's gradient is clipped, and noise is added to their sum."""

    info = MembershipDefenseInfo(id="harness/dp-sgd", version="4", paper="abadi2016")
    noise: float = Field(
        default=1.0, ge=0.01, le=100, description="Standard deviation of the noise divided by the clipping norm."
    )
    clip: float = Field(default=1.0, gt=0, description="Norm to which the gradient of a row is clipped.")
    delta: float = Field(default=1e-5, gt=0, lt=1, description="Probability that the promised epsilon does not hold.")
    batch_size: int = Field(default=0, ge=0, description="Expected rows per training step; 0: as without a defense.")
    epochs: int = Field(default=0, ge=0, description="Epochs of training; 0: as without a defense.")
    learning_rate: float = Field(default=0, ge=0, description="The learning rate; 0: as without a defense.")

    def promises(self, plan: TrainingPlan, rows: int) -> tuple[float, float]:
        """Return epsilon by Renyi divergences, and delta; a member is one row."""
        adjusted_plan = self._own(plan)
        rate, steps = _sampling(adjusted_plan, rows)
        return epsilon_of(self.noise, rate, adjusted_plan.epochs * steps, self.delta), self.delta

    def build(self, device: torch.device) -> TrainPrivately:
        """Return private training; batches are drawn by Poisson sampling, and empty batches add noise, too.

        The training raises `HarnessError` for networks with batch normalisation, which mixes the rows of a batch: no
        gradient is that of a single row then.
        """

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            _check(network.train())
            adjusted_plan, count = self._own(plan), len(data.labels)
            rate, steps = _sampling(adjusted_plan, count)
            parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
            descent, noises = descent_of(parameters.values(), adjusted_plan), generator_on(rng, device)
            for epoch in range(adjusted_plan.epochs):
                for _ in range(steps):
                    drawn = (torch.rand(count, generator=rng) < rate).nonzero()[:, 0].to(device)
                    rows = augmented(data.features[drawn], adjusted_plan, rng)
                    total = clipped_sum(network, rows, data.labels[drawn], self.clip)
                    for gradient in total.values():
                        gradient.add_(
                            torch.randn(gradient.shape, generator=noises, device=device), alpha=self.noise * self.clip
                        )
                    descent.follow([gradient.div_(rate * count) for gradient in total.values()])
                descent.learning_rate = rate_after(adjusted_plan, epoch + 1)
                progress(epoch + 1, adjusted_plan.epochs)
            return network.eval()

        return train

    def _own(self, plan: TrainingPlan) -> TrainingPlan:
        """Return the plan with this defense's own settings."""
        overrides = {
            name: getattr(self, name) for name in ("batch_size", "epochs", "learning_rate") if getattr(self, name)
        }
        return replace(plan, **overrides)


def clipped_sum(network: torch.nn.Module, features: torch.Tensor, labels: torch.Tensor, clip: float) -> Gradients:
    """Return the sum of the gradients of the cross-entropy of single rows, each clipped to a norm of at most `clip`.

    Args:
        features, labels: ``(n, ...)`` and ``(n,)``; without rows the sum is 0.
    """
    if len(labels) and _is_plain(network, features):
        return _plain_sum(network, features, labels, clip)
    weights = {name: p.detach() for name, p in network.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in weights.items()}

    def loss(parameters: Gradients, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(functional_call(network, parameters, (x[None],)), y[None])

    of_each = vmap(grad(loss), in_dims=(None, 0, 0))
    size = max(1, AT_ONCE // sum(p.numel() for p in weights.values()))
    for x, y in zip(features.split(size), labels.split(size), strict=True) if len(labels) else ():
        row_gradients = of_each(weights, x, y)
        norms = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(values.flatten(1), dim=1) for values in row_gradients.values()]),
            dim=0,
        )
        factors = clip / norms.clamp(min=clip)
        for name, gradient in row_gradients.items():
            total[name] += torch.einsum("n,n...->...", factors, gradient)
    return total


def _is_plain(network: torch.nn.Module, features: torch.Tensor) -> bool:
    """Return whether a network is a sequence of linear layers with biases and of functions of single numbers.

    Each layer must be given one vector for each row, and no two may share weights.
    """
    if type(network) is not torch.nn.Sequential:
        return False
    layers = list(network)
    flat = [layer for layer in layers if isinstance(layer, torch.nn.Flatten)]
    return (
        all(type(layer) in PLAIN and not getattr(layer, "inplace", False) for layer in layers)
        and all((layer.start_dim, layer.end_dim) == (1, -1) for layer in flat)
        and (features.dim() == 2 or layers[0] in flat)
        and len(list(network.parameters())) == 2 * sum(isinstance(layer, torch.nn.Linear) for layer in layers)
        and all(p.requires_grad for p in network.parameters())
    )


def _plain_sum(network: torch.nn.Module, features: torch.Tensor, labels: torch.Tensor, clip: float) -> Gradients:
    """Return the clipped sum without computing the gradient of any single row.

    In a linear layer, the gradient of a row is the outer product of the layer's input and of the slope, the derivative
    of the loss by the layer's output. So the gradient's norm is the product of their norms. A bias is a weight whose
    input is 1. Source: Goodfellow, "Efficient Per-Example Gradient Computations" (arXiv 1510.01799).
    """
    inputs, outputs = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    with torch.enable_grad():
        x = features
        for name, layer in network.named_children():
            if isinstance(layer, torch.nn.Linear):
                inputs[name] = x.detach()
                x = outputs[name] = layer(x)
            else:
                x = layer(x)
        loss = torch.nn.functional.cross_entropy(x, labels, reduction="sum")
        slopes = dict(zip(outputs, torch.autograd.grad(loss, list(outputs.values())), strict=True))
    squares = [slopes[name].square().sum(dim=1) * (1 + inputs[name].square().sum(dim=1)) for name in inputs]
    factors = clip / torch.stack(squares).sum(dim=0).sqrt().clamp(min=clip)
    total = {}
    for name, slope in slopes.items():
        clipped = slope * factors[:, None]
        total |= {f"{name}.weight": clipped.mT @ inputs[name], f"{name}.bias": clipped.sum(dim=0)}
    return total


def _check(network: torch.nn.Module) -> None:
    """Raise `HarnessError` for a network with batch normalisation."""
    mixing = (torch.nn.modules.batchnorm._BatchNorm,)
    layer_name = next((type(m).__name__ for m in network.modules() if isinstance(m, mixing)), None)
    if layer_name:
        raise HarnessError(f"dp-sgd needs the gradient of each row, and {layer_name} mixes the rows of a batch")


def _sampling(plan: TrainingPlan, rows: int) -> tuple[float, int]:
    """Return the probability that a row is in a batch, and the number of steps of an epoch."""
    rate = min(1.0, plan.batch_size / rows)
    return rate, max(1, round(1 / rate))


@hookimpl
def components() -> list[MembershipTraining]:
    return [DpSgd()]

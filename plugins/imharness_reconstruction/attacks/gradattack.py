"""GradAttack: gradient inversion with the statistics of batch norm as a further prior.

Huang, Gupta, Song, Li & Arora, "Evaluating Gradient Inversion Attacks and Defenses in Federated Learning" (NeurIPS
2021), section 3: an attacker who does not know the batch norm statistics of the private images takes those of the
shared model. The weights of the priors are those of the realistic CIFAR-10 example in the authors' library.
"""

import torch
from pydantic import Field

from imharness.gradients import Images, Info, ReconstructionAttack, hookimpl
from imharness_reconstruction.inversion import GradientInversion


class GradAttack(GradientInversion):
    """Gradient inversion whose images must also fit the shared model's batch norm statistics."""

    info = Info(id="harness/gradattack", version="6", paper="huang2021")
    total_variation: float = Field(default=0.05, ge=0, description="Weight of the total variation.")
    batch_norm: float = Field(default=1e-3, ge=0, description="Weight of the batch norm statistics.")

    def prior(self, model: torch.nn.Module, images: Images) -> torch.Tensor:
        """Return the weighted sum of the total variation and the distance of statistics, ``(N,)``."""
        distance = super().prior(model, images)
        return distance + self.batch_norm * statistics_distance(model, images) if self.batch_norm else distance


def statistics_distance(model: torch.nn.Module, images: Images) -> torch.Tensor:
    """Return how far each image's mean and variance are from the running ones, summed over the batch norm layers.

    ``(N,)``; 0 for a network without batch norm.
    """
    distances: list[torch.Tensor] = []

    def measure(layer: torch.nn.BatchNorm2d, inputs: tuple[torch.Tensor]) -> None:
        mean, variance = inputs[0].mean(dim=(2, 3)), inputs[0].var(dim=(2, 3), correction=0)
        away = (mean - layer.running_mean, variance - layer.running_var)
        distances.append(sum(torch.linalg.vector_norm(difference, dim=1) for difference in away))

    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    if not layers:
        return images.new_zeros(len(images))
    hooks = [layer.register_forward_pre_hook(measure) for layer in layers]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(distances).sum(dim=0)


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [GradAttack()]

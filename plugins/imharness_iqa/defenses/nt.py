"""NT: training with a penalty on the gradient of the score.

Liu, Yang, Li, Ding & Jiang, "Defense Against Adversarial Attacks on No-Reference Image Quality Models with Gradient
Norm Regularization" (CVPR 2024), equations 8 to 10: the L1 norm of the gradient of the score with respect to the image,
by a finite difference along its sign. Guardians of Image Quality, equation 43: the metric's own loss and the penalty.
"""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, Images, hookimpl
from imharness.training import TrainableMetric, Trained, TrainingContext, TrainingDefense, Tune, TuningPlan
from imharness_iqa.tuning import label_range, tuned


class Nt(TrainingDefense):
    """Training with a penalty on the L1 norm of the gradient of the score."""

    info = DefenseInfo(id="harness/nt", version="1", group="training", differentiable=True, paper="liu2024")
    weight: float = Field(
        default=5e-4, gt=0, description="Weight of the penalty, for scores divided by the range of the labels."
    )
    difference: float = Field(
        default=0.01, gt=0, le=1, description="Step of the finite difference, in units of the pixel range."
    )

    def build(self, device: torch.device) -> Tune:
        def tune(metric: TrainableMetric, plan: TuningPlan, context: TrainingContext) -> Trained:
            low, high = label_range(context.data["train"])

            def loss(network: torch.nn.Module, images: Images, labels: torch.Tensor) -> torch.Tensor:
                leaf = images.requires_grad_(True)
                scores = network(leaf)
                (gradient,) = torch.autograd.grad(scores.sum(), leaf, retain_graph=True)
                penalty = gradient_norm(network, leaf.detach(), scores, gradient, self.difference) / (high - low)
                return metric.loss(scores, labels, high - low) + self.weight * penalty.mean()

            return tuned(metric, plan, context, device, loss, scale_free=metric.scale_free)

        return tune


def gradient_norm(
    network: torch.nn.Module, images: Images, scores: torch.Tensor, gradient: Images, difference: float
) -> torch.Tensor:
    """Return the L1 norm of each image's gradient, ``(N,)``, as a difference quotient that can be differentiated."""
    return (network(images + difference * gradient.sign()) - scores).abs() / difference


@hookimpl
def components() -> list[TrainingDefense]:
    return [Nt()]

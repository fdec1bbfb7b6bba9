"""Inverting gradients: align the gradient's direction, with a total-variation prior.

Geiping et al., "Inverting Gradients - How easy is it to break privacy in federated learning?" (NeurIPS 2020),
equation 4:
1 - cosine + TV, signed Adam, step decay by 10 at 3/8, 5/8 and 7/8 of the steps. The label comes from the gradient.
"""

import torch
from pydantic import Field

from harness.api import Gradients, ImageRng, Images, Info, Paper, Progress, Reconstruct, ReconstructionAttack, hookimpl
from harness_reconstruction.per_image import image_gradients, labels_from_gradients


class InvGrad(ReconstructionAttack):
    """Inverting gradients: cosine distance of gradients and total variation, signed Adam."""

    info = Info(
        id="harness/invgrad",
        version="1",
        paper=Paper(
            title="Inverting Gradients - How easy is it to break privacy in federated learning?",
            authors="Geiping, Bauermeister, Dröge & Moeller",
            year=2020,
            url="https://arxiv.org/abs/2003.14053",
        ),
    )
    steps: int = Field(default=4800, ge=8, le=100_000, description="Adam steps.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Of Adam, in units of the pixel range.")
    total_variation: float = Field(default=1e-4, ge=0, description="Weight of the prior.")

    def build(self, device: torch.device) -> Reconstruct:
        """Return the attack."""

        def reconstruct(
            gradients: Gradients,
            model: torch.nn.Module,
            shape: tuple[int, int, int],
            rng: ImageRng,
            progress: Progress,
        ) -> Images:
            labels = labels_from_gradients(gradients)
            shared = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
            x = (0.5 + 0.2 * rng.normal(*shape)).clamp(0, 1).requires_grad_(True)
            optimizer = torch.optim.Adam([x], lr=self.learning_rate)
            decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, [self.steps * k // 8 for k in (3, 5, 7)], gamma=0.1)
            for done in range(self.steps):
                optimizer.zero_grad(set_to_none=True)
                dummy = image_gradients(model, x, labels)
                flat = torch.cat([dummy[name].flatten(1) for name in gradients], dim=1)
                cosine = torch.nn.functional.cosine_similarity(flat, shared, dim=1)
                loss = 1 - cosine + self.total_variation * total_variation(x)
                (slope,) = torch.autograd.grad(loss.sum(), x)
                x.grad = slope.sign()
                optimizer.step()
                decay.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
                progress(done + 1, self.steps)
            return x.detach()

        return reconstruct


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference of neighbouring pixels, ``(N,)``, both directions added."""
    down = (images[:, :, 1:] - images[:, :, :-1]).abs().flatten(1).mean(dim=1)
    across = (images[:, :, :, 1:] - images[:, :, :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across


@hookimpl
def register_attacks() -> list[ReconstructionAttack]:
    return [InvGrad()]

"""What InvGrad and GradAttack share: signed Adam matches the direction of the gradient, with priors on the image.

Geiping et al., "Inverting Gradients - How easy is it to break privacy in federated learning?" (NeurIPS 2020), equation
4: 1 - cosine + total variation; the step size is divided by 10 after 3/8, 5/8 and 7/8 of the steps. The label is read
from the gradient. All images and all starts are optimised at once, each with its own loss.
"""

import torch
from pydantic import Field

from imharness.gradients import Gradients, ImageRng, Images, Progress, Reconstruct, ReconstructionAttack
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import image_gradients, labels_from_gradients

DECAYS = (3, 5, 7)


class GradientInversion(ReconstructionAttack):
    """Changes images by signed Adam until their gradient has the direction of the shared one."""

    steps: int = Field(default=4800, ge=8, le=100_000, description="Adam steps.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Step size of Adam, in pixel range units.")
    total_variation: float = Field(default=1e-4, ge=0, description="Weight of the total variation.")
    starts: int = Field(default=1, ge=1, le=100, description="Random starts; each image keeps its best end.")
    surviving: bool = Field(default=True, description="Match only coordinates that are not 0, which pruning leaves.")

    def prior(self, model: torch.nn.Module, images: Images) -> torch.Tensor:
        """Return the prior that is added to the loss of each image, ``(N,)``."""
        return self.total_variation * total_variation(images)

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients,
            model: torch.nn.Module,
            shape: tuple[int, int, int],
            rng: ImageRng,
            progress: Progress,
        ) -> Images:
            labels = labels_from_gradients(gradients).repeat(self.starts)
            shared = flat(gradients).repeat(self.starts, 1)
            mask = survivors(gradients) if self.surviving else None
            kept = None if mask is None else flat(mask).repeat(self.starts, 1)
            first = torch.cat([rng.normal(*shape) for _ in range(self.starts)])
            x = (0.5 + 0.2 * first).clamp(0, 1).requires_grad_(True)
            optimiser = torch.optim.Adam([x], lr=self.learning_rate)
            milestones = [self.steps * k // 8 for k in DECAYS]
            decay = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones, gamma=0.1)

            def losses() -> torch.Tensor:
                found = image_gradients(model, x, labels)
                ours = flat({name: found[name] for name in gradients})
                ours = ours if kept is None else ours * kept
                return 1 - torch.nn.functional.cosine_similarity(ours, shared, dim=1) + self.prior(model, x)

            for done in range(self.steps):
                (slope,) = torch.autograd.grad(losses().sum(), x)
                x.grad = slope.sign()
                optimiser.step()
                decay.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
                progress(done + 1, self.steps)
            found = x.detach()
            if self.starts == 1:
                return found
            best = losses().detach().view(self.starts, -1).argmin(dim=0)
            return found.view(self.starts, len(best), *shape)[best, torch.arange(len(best), device=found.device)]

        return reconstruct


def flat(gradients: Gradients) -> torch.Tensor:
    """Return all coordinates of each image's gradient in one row, ``(N, D)``."""
    return torch.cat([values.flatten(1) for values in gradients.values()], dim=1)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the sum over both directions of the mean absolute difference of neighbouring pixels, ``(N,)``."""
    down = (images[:, :, 1:] - images[:, :, :-1]).abs().flatten(1).mean(dim=1)
    across = (images[:, :, :, 1:] - images[:, :, :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across

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

DECAYS, DECAY = (3, 5, 7), 0.1
BETAS, EPS = (0.9, 0.999), 1e-8
"""Of Adam."""


class GradientInversion(ReconstructionAttack):
    """Changes images by signed Adam until their gradient has the direction of the shared one."""

    steps: int = Field(default=4800, ge=8, le=100_000, description="Adam steps.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Step size of Adam, in pixel range units.")
    total_variation: float = Field(default=1e-4, ge=0, description="Weight of the total variation.")
    starts: int = Field(default=1, ge=1, le=100, description="Random starts; each image keeps its best end.")
    tolerance: float = Field(
        default=1e-6, ge=0, lt=1, description="An image stops when its gradient is this near in cosine distance."
    )
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
            x = (0.5 + 0.2 * first).clamp(0, 1)
            lowest = x.new_full((len(x),), torch.inf)
            rows, (mean, square) = torch.arange(len(x), device=x.device), torch.zeros(2, *x.shape, device=x.device)
            for done in range(self.steps):
                leaf = x[rows].requires_grad_(True)
                found = image_gradients(model, leaf, labels[rows])
                ours = flat({name: found[name] for name in gradients})
                ours = ours if kept is None else ours * kept[rows]
                gap = 1 - torch.nn.functional.cosine_similarity(ours, shared[rows], dim=1)
                loss = gap + self.prior(model, leaf)
                (slope,) = torch.autograd.grad(loss.sum(), leaf)
                lowest[rows] = loss.detach()
                going = gap.detach() > self.tolerance
                rows, sign = rows[going], slope[going].sign()
                if not len(rows):
                    break
                mean[rows] = torch.lerp(sign, mean[rows], BETAS[0])
                square[rows] = torch.lerp(sign.square(), square[rows], BETAS[1])
                rate = self.learning_rate * DECAY ** sum(done >= self.steps * k // 8 for k in DECAYS)
                scale = (square[rows] / (1 - BETAS[1] ** (done + 1))).sqrt() + EPS
                x[rows] = (x[rows] - rate / (1 - BETAS[0] ** (done + 1)) * mean[rows] / scale).clamp(0, 1)
                progress(done + 1, self.steps)
            if self.starts == 1:
                return x
            best = lowest.view(self.starts, -1).argmin(dim=0)
            return x.view(self.starts, len(best), *shape)[best, torch.arange(len(best), device=x.device)]

        return reconstruct


def flat(gradients: Gradients) -> torch.Tensor:
    """Return all coordinates of each image's gradient in one row, ``(N, D)``."""
    return torch.cat([values.flatten(1) for values in gradients.values()], dim=1)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the sum over both directions of the mean absolute difference of neighbouring pixels, ``(N,)``."""
    down = (images[:, :, 1:] - images[:, :, :-1]).abs().flatten(1).mean(dim=1)
    across = (images[:, :, :, 1:] - images[:, :, :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across

"""StAdv: warp the image so that its score rises.

Xiao, Zhu, Li, He, Liu & Song, "Spatially Transformed Adversarial Examples" (ICLR 2018), equations 1 to 4: L-BFGS on a
flow field. The loss has two terms: the rank loss of the score, c / (c + score), and the roughness of the flow. As in
the published benchmark, c is 1.5 ranges of the metric; the score is measured from the lower bound of the metric.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.adam_attack import relative
from imharness_vision.lbfgs import minimise

RIVAL = 1.5
"""The constant c of the rank loss, in ranges of the metric."""
SCORE_WEIGHT, FLOW_WEIGHT = 50.0, 1e-5
HISTORY = 100


def warped(images: Images, flow: torch.Tensor) -> Images:
    """Return images sampled bilinearly at each pixel plus `flow` ``(N, 2, H, W)``, in px (down, right)."""
    height, width = images.shape[2:]
    rows = torch.linspace(-1, 1, height, device=images.device)[None, :, None] + 2 * flow[:, 0] / max(height - 1, 1)
    columns = torch.linspace(-1, 1, width, device=images.device)[None, None] + 2 * flow[:, 1] / max(width - 1, 1)
    grid = torch.stack([columns, rows], dim=-1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


def roughness(flow: torch.Tensor) -> torch.Tensor:
    """Return ``(N,)``: squared differences of the flow to its four diagonal neighbours, zero beyond the border."""
    height, width = flow.shape[2:]
    padded = F.pad(flow, [1] * 4)
    corners = ((0, 0), (0, 2), (2, 0), (2, 2))
    return sum((flow - padded[:, :, y : y + height, x : x + width]).square().sum(dim=(1, 2, 3)) for y, x in corners)


class StAdv(Attack):
    """L-BFGS on a flow field that warps the image smoothly."""

    info = AttackInfo(
        id="harness/stadv",
        version="1",
        access="white_box",
        norm="unrestricted",
        distortion="ssim",
        strengths={
            "weak": {"learning_rate": 0.60590},
            "medium": {"learning_rate": 0.81444},
            "strong": {"learning_rate": 0.99803},
        },
        paper="xiao2018",
    )
    learning_rate: float = Field(default=2.5, gt=0, le=100, description="Factor on each L-BFGS step.")
    iterations: int = Field(default=3, ge=1, le=10_000, description="Steps.")

    def budget(self) -> Budget:
        """Return one score per step and one for the start; the distance is not bounded."""
        return Budget(queries=self.iterations + 1)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack; each image gets the flow with the lowest loss that was seen."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            lowest = target.lower / (target.upper - target.lower)

            def loss(flat: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
                flow = flat.view(len(images), 2, *images.shape[2:])
                height = relative(target(warped(images, flow).clamp(0, 1)), target) - lowest
                return SCORE_WEIGHT * RIVAL / (RIVAL + height).clamp(min=0.01) + FLOW_WEIGHT * roughness(flow)

            start = torch.zeros(len(images), 2 * images[0, 0].numel(), device=images.device)
            best, _ = minimise(loss, start, self.iterations, HISTORY, _silent, self.learning_rate)
            return warped(images, best.view(len(images), 2, *images.shape[2:])).clamp(0, 1)

        return perturb


def _silent(done: int, total: int) -> None:
    pass


@hookimpl
def components() -> list[Attack]:
    return [StAdv()]

"""cAdv: a colourisation network gives the image other colours and keeps its lightness.

Bhattad, Chong, Liang, Li & Forsyth, "Unrestricted Adversarial Examples via Semantic Manipulation" (ICLR 2020), section
3.1. Adam optimises the colour hints and their mask. The hints come from the clusters whose colours the network
predicts with the most certainty.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import Asset, Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.adam_attack import relative
from imharness_iqa.colorizer import PUBLISHED_WIDTH, SIGGRAPH, UNIT, Colorizer, to_lab, to_rgb
from imharness_iqa.networks import Backbone, loaded

CLUSTERS, SURE_CLUSTERS, HINTS = 8, 4, 50
LLOYD_STEPS = 10
EMBEDDED_WIDTH = 6


class CAdv(Attack):
    """Adam on the colour hints of a colourisation network; the lightness does not change."""

    info = AttackInfo(
        id="harness/cadv",
        version="3",
        access="white_box",
        norm="unrestricted",
        distortion="ssim",
        strengths={
            "weak": {"learning_rate": 0.00011},
            "medium": {"learning_rate": 0.0027406},
            "strong": {"learning_rate": 0.0043568},
        },
        paper="bhattad2020",
    )
    learning_rate: float = Field(default=0.0005, gt=0, le=1, description="Adam's step size, in scaled colour units.")
    iterations: int = Field(default=10, ge=1, le=10_000, description="Number of Adam steps.")
    backbone: Backbone = Field(default="published", description="Colourisation network.")

    def budget(self) -> Budget:
        """Return one score per step; the distance is not bounded."""
        return Budget(queries=self.iterations)

    def assets(self) -> tuple[Asset, ...]:
        """Return the published network, unless the embedded one is asked for."""
        return (SIGGRAPH,) if self.backbone == "published" else ()

    def build(self, device: torch.device) -> Perturb:
        width = EMBEDDED_WIDTH if self.backbone == "embedded" else PUBLISHED_WIDTH
        network = loaded(Colorizer(width), self.backbone, "embedded-colorizer", SIGGRAPH, device=device)

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            whole = F.pad(images, (0, -width % UNIT, 0, -height % UNIT), mode="replicate")
            lightness, colours = to_lab(whole)
            hints, mask = _hints(network, lightness, colours, rng)
            leaves = [hints.requires_grad_(True), mask.requires_grad_(True)]

            def recoloured() -> Images:
                inputs = torch.cat([lightness, hints.clamp(-1, 1), mask.clamp(0, 1)], dim=1)
                return to_rgb(lightness, network(inputs)[1])[:, :, :height, :width]

            optimiser = torch.optim.Adam(leaves, lr=self.learning_rate)
            for _ in range(self.iterations):
                loss = -relative(target(recoloured()), target).sum()
                for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                    leaf.grad = gradient.nan_to_num()
                optimiser.step()
            with torch.no_grad():
                return recoloured()

        return perturb


@torch.no_grad()
def _hints(
    network: torch.nn.Module, lightness: torch.Tensor, colours: torch.Tensor, rng: ImageRng
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return colour hints ``(N, 2, H, W)`` and their mask ``(N, 1, H, W)``, 1 where there is a hint.

    Pixels are clustered by smoothed colour. Hints are at random pixels of the `SURE_CLUSTERS` clusters of which the
    network, without hints, predicts the colours with the least entropy.
    """
    from kornia.filters import gaussian_blur2d

    empty = torch.zeros_like(lightness)
    logits, _ = network(torch.cat([lightness, torch.zeros_like(colours), empty], dim=1))
    entropy = torch.distributions.Categorical(logits=logits.movedim(1, -1)).entropy()[:, None]
    entropy = F.interpolate(entropy, lightness.shape[2:], mode="nearest").flatten(1)
    window = 2 * (min(8, min(lightness.shape[2:]) - 1) // 2) + 1  # odd, 9 px or what fits into the image
    smooth = gaussian_blur2d(colours, (window, window), (3.0, 3.0)).flatten(2).movedim(1, 2)
    member = F.one_hot(clusters(smooth, CLUSTERS), CLUSTERS).float()
    sizes = member.sum(dim=1)
    mean_entropy = (member * entropy[:, :, None]).sum(dim=1) / sizes.clamp(min=1)  # of each cluster
    sure = mean_entropy.masked_fill(sizes == 0, torch.inf).argsort(dim=1)[:, :SURE_CLUSTERS]
    eligible = member.gather(2, sure[:, None].expand(-1, member.shape[1], -1)).any(dim=2)
    keys = rng.uniform(eligible.shape[1]) + 2 * ~eligible  # eligible pixels first, in a random order
    chosen = keys.argsort(dim=1)[:, :HINTS]
    mask = torch.zeros_like(entropy).scatter(1, chosen, 1.0) * eligible
    mask = mask.view_as(lightness)
    return colours * mask, mask


def clusters(points: torch.Tensor, count: int) -> torch.Tensor:
    """Return the cluster ``(N, P)``, 0 to count - 1, of each of the points ``(N, P, D)``, by Lloyd's k-means.

    The first centre is the mean; each further one starts at the point that is farthest from the centres before it.
    """
    centres = points.mean(dim=1, keepdim=True)
    for _ in range(count - 1):
        far = torch.cdist(points, centres).amin(dim=2).argmax(dim=1)
        centres = torch.cat([centres, points.gather(1, far[:, None, None].expand(-1, 1, points.shape[2]))], dim=1)
    for _ in range(LLOYD_STEPS):
        member = F.one_hot(torch.cdist(points, centres).argmin(dim=2), count).to(points.dtype)
        sums, sizes = member.transpose(1, 2) @ points, member.sum(dim=1)[:, :, None]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
    return torch.cdist(points, centres).argmin(dim=2)


@hookimpl
def components() -> list[Attack]:
    return [CAdv(), CAdv(backbone="embedded")]

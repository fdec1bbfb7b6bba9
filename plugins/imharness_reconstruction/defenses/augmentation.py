"""Random crops and mirroring before the gradient is computed: the plain augmentation of SemSim's table 3."""

import torch
from pydantic import Field

from imharness.gradients import ImagePool, ImageProtection, ImageRng, Images, Info, ProtectImages, hookimpl


class Augmentation(ImageProtection):
    """Cuts a random part out of each image, enlarges it to the full size and mirrors half of the images."""

    info = Info(id="harness/augmentation", version="1")
    smallest: float = Field(default=0.08, gt=0, le=1, description="Smallest share of the area that is kept.")

    def build(self, device: torch.device) -> ProtectImages:
        """Return the protection: area uniform in [smallest, 1], ratio of sides log-uniform in [3/4, 4/3]."""

        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            area, ratio, x, y, mirror = rng.uniform(5).unbind(dim=1)
            area = self.smallest + (1 - self.smallest) * area
            stretch = torch.exp((2 * ratio - 1) * torch.log(torch.tensor(4 / 3))).sqrt()
            width, height = (area.sqrt() * stretch).clamp(max=1), (area.sqrt() / stretch).clamp(max=1)
            across, down = (2 * x - 1) * (1 - width), (2 * y - 1) * (1 - height)
            width = torch.where(mirror < 0.5, -width, width)
            zero = torch.zeros_like(width)
            window = torch.stack([width, zero, across, zero, height, down], dim=1).view(-1, 2, 3)
            grid = torch.nn.functional.affine_grid(window, list(images.shape), align_corners=False)
            moved = torch.nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
            return moved.clamp(0, 1), targets

        return protect


@hookimpl
def components() -> list[ImageProtection]:
    return [Augmentation()]

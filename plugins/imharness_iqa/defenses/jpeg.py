"""JPEG compression by libjpeg."""

import io

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Jpeg(Purification):
    """Compress and decompress with JPEG, chroma halved (4:2:0)."""

    info = DefenseInfo(
        id="harness/jpeg",
        version="1",
        group="compression",
        grid={"quality": (10, 30, 50, 70, 90)},
        differentiable=False,
        stand_in="harness/diffjpeg",
    )
    quality: int = Field(default=50, ge=1, le=100, description="JPEG quality.")

    def build(self, device: torch.device) -> Purifier:
        """Return the defense; the codec runs on the CPU, image by image."""

        def purify(images: Images, rng: ImageRng) -> Images:
            pixels = images.detach().mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
            decoded = np.stack([_through_jpeg(image, self.quality) for image in pixels])
            return torch.from_numpy(decoded).permute(0, 3, 1, 2).to(images.device).float() / 255

        return purify


def _through_jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    code = io.BytesIO()
    Image.fromarray(image).save(code, "JPEG", quality=quality)
    return np.asarray(Image.open(code))


@hookimpl
def components() -> list[Purification]:
    return [Jpeg()]

"""JPEG compression by libjpeg."""

import torch
from pydantic import Field

from harness.api import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Jpeg(Purification):
    """Compress and decompress with JPEG, chroma halved (4:2:0)."""

    info = DefenseInfo(id="harness/jpeg", version="1", differentiable=False)
    quality: int = Field(default=50, ge=1, le=100, description="JPEG quality.")

    def build(self, device: torch.device) -> Purifier:
        """Return the defense; the codec runs on the CPU."""
        from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

        def purify(images: Images, rng: ImageRng) -> Images:
            pixels = list(images.detach().mul(255).round().byte().cpu())
            decoded = decode_jpeg(encode_jpeg(pixels, quality=self.quality), mode=ImageReadMode.RGB)
            return torch.stack(decoded).to(images.device).float() / 255

        return purify


@hookimpl
def register_defenses() -> list[Purification]:
    return [Jpeg()]

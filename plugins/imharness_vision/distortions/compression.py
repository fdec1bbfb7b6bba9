"""JPEG at qualities from 100 down to 2."""

import cv2
import numpy as np
import torch

from imharness.images import ImageRng, Images

WORST = 2


def jpeg(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Compress with libjpeg; quality falls linearly from 100 at severity 0, where nothing is compressed."""
    quality = (100 - (100 - WORST) * severity).round().int().tolist()
    pixels = images.clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    coded = np.stack([_through(image, q) for image, q in zip(pixels, quality, strict=True)])
    decoded = torch.from_numpy(coded).permute(0, 3, 1, 2).to(images) / 255
    return torch.where(severity.view(-1, 1, 1, 1) > 0, decoded, images)


def _through(image: np.ndarray, quality: int) -> np.ndarray:
    _, code = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(code, cv2.IMREAD_COLOR)[..., ::-1]

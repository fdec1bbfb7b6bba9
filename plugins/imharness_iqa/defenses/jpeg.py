"""JPEG compression by libjpeg."""

import os
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

THREADS = 4
"""The most threads that compress images if the metric is on an accelerator, which would wait for one thread.

If the metric is on the CPU, one thread compresses: other workers use the other cores.
"""


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
        threads = 1 if device.type == "cpu" else min(THREADS, os.cpu_count() or 1)

        def purify(images: Images, rng: ImageRng) -> Images:
            planes = images.detach().cpu().contiguous().numpy()
            decoded = np.empty((len(images), *images.shape[2:], 3), dtype=np.uint8)

            def one(index: int) -> None:
                cv2.cvtColor(_through_jpeg(planes[index], self.quality), cv2.COLOR_BGR2RGB, dst=decoded[index])

            if min(threads, len(images)) < 2:
                list(map(one, range(len(images))))
            else:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(one, range(len(images))))
            return torch.from_numpy(decoded).permute(0, 3, 1, 2).to(images.device) / 255

        return purify


def _through_jpeg(image: np.ndarray, quality: int) -> np.ndarray:
    """Return an image ``(3, H, W)``, RGB in [0, 1], after compression, as uint8 BGR ``(H, W, 3)``.

    OpenCV's libjpeg gives the same pixels as Pillow's, in half the time.
    """
    levels = cv2.convertScaleAbs(image.reshape(-1, image.shape[2]), alpha=255).reshape(image.shape)
    _, code = cv2.imencode(".jpg", cv2.merge([*levels[::-1]]), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(code, cv2.IMREAD_COLOR)


@hookimpl
def components() -> list[Purification]:
    return [Jpeg()]

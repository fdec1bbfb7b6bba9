"""A defense that changes nothing, and waits once so many tasks are finished: no run with it ends too soon."""

import os
import time
from pathlib import Path

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Holding(Purification):
    """Returns images as they are; waits if ``HARNESS_TEST_HOLD`` is ``TASKS:STORE`` and so many tasks are finished."""

    info = DefenseInfo(id="acme/holding", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the identity."""

        def purify(images: Images, rng: ImageRng) -> Images:
            tasks, _, store = os.environ.get("HARNESS_TEST_HOLD", "").partition(":")
            while tasks and len(list(Path(store).glob("rows/*/*.parquet"))) >= int(tasks):
                time.sleep(0.1)
            return images.clone()

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Holding()]

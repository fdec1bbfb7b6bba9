"""A defense that changes nothing, and waits from a number of finished tasks on: no run with it is over too soon."""

import os
import time
from pathlib import Path

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Holding(Purification):
    """Give images back as they are; wait where ``HARNESS_TEST_HOLD`` says ``TASKS:STORE`` and so many are finished."""

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

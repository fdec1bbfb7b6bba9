"""A defense that changes nothing, and can be told to wait: a run with it then comes to no end."""

import os
import time
from pathlib import Path

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Holding(Purification):
    """Returns images as they are; ``HARNESS_TEST_HOLD`` may hold it.

    If that is ``NUMBER:STORE``, it waits while the folder ``tasks`` of the store has that many Parquet files, or more.
    """

    info = DefenseInfo(id="acme/holding", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the identity."""

        def purify(images: Images, rng: ImageRng) -> Images:
            tasks, _, store = os.environ.get("HARNESS_TEST_HOLD", "").partition(":")
            while tasks and len(list(Path(store).glob("tasks/*/*.parquet"))) >= int(tasks):
                time.sleep(0.1)
            return images.clone()

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Holding()]

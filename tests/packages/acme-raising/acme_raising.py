"""Purifications that fail when they are used, each in its own way."""

import os
import time
from typing import Literal

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Failing(Purification):
    """Fail while purifying."""

    info = DefenseInfo(id="acme/failing", version="1", differentiable=False)
    how: Literal["raise", "nan", "shape", "exit", "hang"] = Field(default="raise", description="In which way.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            if self.how == "raise":
                raise ValueError("no luck today")
            if self.how == "exit":
                os._exit(3)
            if self.how == "hang":
                time.sleep(3600)
            return images[:, :, ::2] * float("nan") if self.how == "nan" else images[:-1]

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Failing()]

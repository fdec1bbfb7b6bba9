"""Looks for opinion scores and labels in all folders where data sets could be."""

import contextlib
import importlib
import os
import sys

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Looks for opinion scores and labels wherever data sets could lie."""

    info = DefenseInfo(id="evil/reads-labels", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for root in ("/root", "/home", "/data", "/srv", "/mnt", sys.prefix):
                for folder, _, files in os.walk(root):
                    matches = [
                        f
                        for f in files
                        if ("mos" in f.lower() and f.endswith((".csv", ".parquet"))) or f == "photographs.py"
                    ]
                    if matches:
                        raise RuntimeError(f"FOUND {folder}/{matches[0]}")
            for name in ("imharness_embedded", "imharness_iqa"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(f"{name}.photographs")
                    raise RuntimeError(f"FOUND {name}")
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

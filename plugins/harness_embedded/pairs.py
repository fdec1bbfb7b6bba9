"""Forced choices of known order on the photographs that ship inside scikit-image and scikit-learn."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from harness.api import ImageDataset, ImageRng, ImageSet, Info, derive_seed, hookimpl
from harness_embedded.photographs import TEST, TEXTURES, TRAIN, crops, image_set, sources_in
from harness_vision.distortions import DISTORTIONS, FAMILIES, distorted


class DistortedPairs(ImageDataset):
    """Forced choices of known order: a crop, and the same two distortions of it, twice as strong in the second.

    The distortions are two of the traditional ones of Zhang et al. (CVPR 2018, table 2), one after the other, as they
    compose them; both alternatives draw the same randomness. The right answer is a proxy.
    """

    info = Info(id="harness/distorted-pairs", version="1")
    split: Literal["test", "train"] = Field(default="test", description="Photographs; no photograph is in both.")
    size: int = Field(default=64, ge=16, le=256, description="Side of a crop, px; 64 in the paper.")
    per_photograph: int = Field(default=25, ge=1, le=1000, description="Forced choices per photograph.")
    folder: str = Field(default="", description="Take the photographs of this folder instead; then there is no split.")

    def build(self, device: torch.device) -> ImageSet:
        """Return crops, each followed by alternative 0, the milder one, and alternative 1."""
        own = TEST if self.split == "test" else (*TRAIN, *TEXTURES)
        sources = sources_in(self.folder) if self.folder else own
        clean = [crop for source in sources for crop in crops(source, self.size, self.per_photograph)]
        groups = [f"{Path(source).stem}-{i}" for source in sources for i in range(self.per_photograph)]
        images = torch.from_numpy(np.stack(clean)).permute(0, 3, 1, 2).float().div(255)
        names = sorted(DISTORTIONS)
        seeds = [derive_seed("distorted-pairs", group, self.size) for group in groups]
        drawn = [np.random.default_rng(seed).choice(len(names), 2, replace=False) for seed in seeds]
        severity = ImageRng(seeds).uniform(2) * 0.4 + 0.1
        mild, strong = images.clone(), images.clone()
        for chosen in {tuple(pair) for pair in drawn}:
            rows = [i for i, pair in enumerate(drawn) if tuple(pair) == chosen]
            pair = [names[i] for i in chosen]
            streams = [seeds[i] for i in rows]
            mild[rows] = distorted(images[rows], pair, severity[rows], ImageRng(streams))
            strong[rows] = distorted(images[rows], pair, 2 * severity[rows], ImageRng(streams))
        stack = torch.stack([images, mild, strong], dim=1).flatten(0, 1).mul(255).round().byte()
        families = {name: family for family, members in FAMILIES.items() for name in members}
        family = ["+".join(sorted({families[names[i]] for i in pair})) for pair in drawn]
        columns = {
            "reference": [group for group in groups for _ in range(3)],
            "family": [f for f in family for _ in range(3)],
            "group": [name for group in groups for name in ("", group, group)],
            "choice": [-1, 0, 1] * len(groups),
            "judge": [float("nan"), 0.0, 0.0] * len(groups),
        }
        found = [f"{group}{end}" for group in groups for end in ("", "-mild", "-strong")]
        proxy = "the order of strengths, not human judgements"
        return image_set(found, stack.permute(0, 2, 3, 1).contiguous().numpy(), columns, proxy)


@hookimpl
def register_datasets() -> list[ImageDataset]:
    return [DistortedPairs()]

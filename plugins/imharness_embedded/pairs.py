"""Forced choices of known order on the photographs that ship with the packages that are required."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageRng, Images, ImageSet, Info, derive_seed, hookimpl
from imharness_embedded.photographs import TEXTURES, TRAIN, content_of, crops, held_out, image_set, sources_in
from imharness_vision.distortions import DISTORTIONS, distorted

MILD, STRONG = (0.05, 0.25), (0.45, 1.0)
"""The severities of the two alternatives."""


class DistortedPairs(ImageDataset):
    """Forced choices between a crop distorted mildly in two ways and the same crop distorted strongly in two others.

    The distortions are the traditional ones of Zhang et al. (CVPR 2018, table 2), applied in pairs as in the paper.
    That the milder one is nearer is a proxy: severities of different distortions are not comparable.
    """

    info = Info(id="harness/distorted-pairs", version="3")
    split: Literal["test", "train"] = Field(
        default="test", description="Which photographs to use; no photograph is in both splits."
    )
    size: int = Field(default=64, ge=16, le=256, description="Side of a crop, px; 64 in the paper.")
    per_photograph: int = Field(default=25, ge=1, le=1000, description="Forced choices per photograph.")
    folder: str = Field(default="", description="Take the photographs of this folder instead; then there is no split.")

    def require(self) -> None:
        """Raise `Unavailable` if a folder is named and contains no images."""
        if self.folder:
            sources_in(self.folder)

    def content(self) -> str:
        """Return a digest of the folder's images."""
        return content_of(self.folder)

    def build(self, device: torch.device) -> ImageSet:
        """Return crops, each followed by alternative 0, the milder one, and alternative 1."""
        own = held_out(self.size) if self.split == "test" else (*TRAIN, *TEXTURES)
        sources = sources_in(self.folder) if self.folder else own
        clean = [crop for source in sources for crop in crops(source, self.size, self.per_photograph)]
        groups = [f"{Path(source).stem}-{i}" for source in sources for i in range(self.per_photograph)]
        images = torch.from_numpy(np.stack(clean)).permute(0, 3, 1, 2).float().div(255)
        mild, strong = (self._distorted(images, groups, strength) for strength in (MILD, STRONG))
        stack = torch.stack([images, mild, strong], dim=1).flatten(0, 1).mul(255).round().byte()
        columns = {
            "reference": [group for group in groups for _ in range(3)],
            "photograph": [Path(source).stem for source in sources for _ in range(3 * self.per_photograph)],
            "family": ["traditional"] * (3 * len(groups)),
            "group": [name for group in groups for name in ("", group, group)],
            "choice": [-1, 0, 1] * len(groups),
            "judge": [float("nan"), 0.0, 0.0] * len(groups),
            "judges": [0] * (3 * len(groups)),
        }
        found = [f"{group}{end}" for group in groups for end in ("", "-mild", "-strong")]
        proxy = "the order of strengths, not human judgements"
        return image_set(found, stack.permute(0, 2, 3, 1).contiguous().numpy(), columns, proxy)

    def _distorted(self, images: Images, groups: list[str], strength: tuple[float, float]) -> Images:
        """Return every image after two distortions of its own, with severities drawn between the two strengths."""
        seeds = [derive_seed("distorted-pairs", group, self.size, *strength) for group in groups]
        names, (low, high) = sorted(DISTORTIONS), strength
        drawn = [tuple(np.random.default_rng(seed).choice(len(names), 2, replace=False).tolist()) for seed in seeds]
        severity = low + (high - low) * ImageRng(seeds).uniform(2)
        out = images.clone()
        for pair in sorted(set(drawn)):
            rows = [i for i, chosen in enumerate(drawn) if chosen == pair]
            streams = ImageRng([seeds[i] for i in rows])
            out[rows] = distorted(images[rows], [names[i] for i in pair], severity[rows], streams)
        return out


@hookimpl
def components() -> list[ImageDataset]:
    return [DistortedPairs()]

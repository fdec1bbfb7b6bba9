"""Forced choices whose order is known, on photographs that ship with required packages."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageRng, Images, ImageSet, Info, derive_seed, hookimpl
from imharness_embedded.photographs import (
    TEXTURES,
    TRAIN,
    Pictures,
    content_of,
    crops,
    held_out,
    image_set,
    sources_in,
    titles,
)
from imharness_vision.distortions import DISTORTIONS, FAMILIES, distorted

MILD, STRONG = (0.05, 0.25), (0.45, 1.0)
"""The severities of the two alternatives."""
PROXY = "the order of strengths, not human judgements"
KINDS = {
    "photometric": tuple(FAMILIES["photometric"]),
    "noise": tuple(FAMILIES["noise"]),
    "detail": (*FAMILIES["blur"], *FAMILIES["compression"]),
    "spatial": tuple(FAMILIES["spatial"]),
}
"""The families of `CrossedPairs`, with their distortions; blur and compression both take detail away."""
ENDS = ("mild", "strong")
Range = tuple[float, float]


class DistortedPairs(ImageDataset):
    """Forced choices between a crop distorted mildly in two ways and the same crop distorted strongly in two others.

    The distortions are the traditional ones of Zhang et al. (CVPR 2018, table 2), applied in pairs as in the paper.
    That the milder one is nearer is a proxy: severities of different distortions are not comparable.
    """

    info = Info(id="harness/distorted-pairs", version="4")
    family: ClassVar[str] = "traditional"
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
        default_sources = held_out(self.size) if self.split == "test" else (*TRAIN, *TEXTURES)
        sources = sources_in(self.folder) if self.folder else default_sources
        clean = [crop for source in sources for crop in crops(source, self.size, self.per_photograph)]
        names = titles(sources)
        groups = [f"{name}-{i}" for name in names for i in range(self.per_photograph)]
        images = torch.from_numpy(np.stack(clean)).permute(0, 3, 1, 2).float().div(255)
        versions = [images, *(self._distorted(images, groups, strength) for strength in (MILD, STRONG))]
        columns = {
            "reference": [group for group in groups for _ in range(3)],
            "photograph": [name for name in names for _ in range(3 * self.per_photograph)],
            "family": [self.family] * (3 * len(groups)),
            "group": [name for group in groups for name in ("", group, group)],
            "choice": [-1, 0, 1] * len(groups),
            "judge": [float("nan"), 0.0, 0.0] * len(groups),
            "judges": [0] * (3 * len(groups)),
        }
        image_names = [f"{group}{end}" for group in groups for end in ("", "-mild", "-strong")]
        return image_set(image_names, _in_turn(versions), columns, PROXY)

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


class CrossedPairs(ImageDataset):
    """Forced choices on one crop of each of 36 free photographs, one for each family of distortions.

    Both alternatives of a choice have a distortion of one family, of two different kinds, such as a shift and a warp.
    Each photograph is one independent unit, and every family is on every photograph. Within a family, severities have
    nearly one scale, such as the share of the side by which pixels move; still, that the milder alternative is nearer
    is a proxy: nobody was asked.
    """

    info = Info(id="harness/crossed-pairs", version="2")
    split: Literal["test", "train"] = Field(
        default="test", description="Which photographs to use; no photograph is in both splits."
    )
    size: int = Field(default=176, ge=16, le=256, description="Side of a crop, px.")
    mild: Range = Field(default=(0.1, 0.3), description="Severities of the nearer alternative, from 0 to 1.")
    strong: Range = Field(default=(0.4, 0.7), description="Severities of the other alternative, from 0 to 1.")

    def build(self, device: torch.device) -> ImageSet:
        """Return crops, each followed by alternative 0, the milder one, and alternative 1 of every family."""
        sources = Pictures().sources() if self.split == "test" else (*TRAIN, *TEXTURES)
        clean = np.stack([crops(source, self.size, 1)[0] for source in sources])
        images = torch.from_numpy(clean).permute(0, 3, 1, 2).float().div(255)
        stems = [Path(source).stem for source in sources]
        versions = [images, *(self._distorted(images, stems, family, end) for family in KINDS for end in ENDS)]
        families = ["", *(family for family in KINDS for _ in ENDS)]
        groups = [f"{stem}-{family}" if family else "" for stem in stems for family in families]
        ends, count = ["", *list(ENDS) * len(KINDS)], len(stems)
        photographs = [stem for stem in stems for _ in families]
        columns = {
            "reference": photographs,
            "photograph": photographs,
            "family": families * count,
            "group": groups,
            "choice": [-1, *[0, 1] * len(KINDS)] * count,
            "judge": [float("nan"), *[0.0, 0.0] * len(KINDS)] * count,
            "judges": [0] * len(photographs),
        }
        names = [
            f"{group}-{end}" if end else stem
            for stem, group, end in zip(photographs, groups, ends * count, strict=True)
        ]
        return image_set(names, _in_turn(versions), columns, PROXY)

    def _distorted(self, images: Images, stems: list[str], family: str, end: str) -> Images:
        """Return every image after one distortion of a family, milder or stronger as `end` says.

        The mild distortions go round the family, image by image. The strong one is 1 to n - 1 places further in the
        family of n; how many changes after each round, so that every pair of distortions occurs.
        """
        kinds, (low, high) = KINDS[family], self.mild if end == "mild" else self.strong
        count = len(kinds)
        chosen = []  # the number of each image's distortion
        for i in range(len(stems)):
            further = 1 + i // count % (count - 1) if end == "strong" else 0
            chosen.append((i + further) % count)
        out = images.clone()
        for number, kind in enumerate(kinds):
            rows = [i for i, other in enumerate(chosen) if other == number]
            streams = ImageRng([derive_seed("crossed-pairs", stems[i], family, end, self.size) for i in rows])
            severity = low + (high - low) * streams.uniform(1)[:, 0]
            out[rows] = DISTORTIONS[kind](images[rows], severity, streams).clamp(0, 1)
        return out


def _in_turn(versions: Iterable[Images]) -> np.ndarray:
    """Return the first image of each batch, then the second image of each, and so on, uint8 ``(n, h, w, 3)``."""
    pixels = [version.mul(255).round().byte().permute(0, 2, 3, 1) for version in versions]
    return torch.stack(pixels, dim=1).flatten(0, 1).numpy()


@hookimpl
def components() -> list[ImageDataset]:
    return [DistortedPairs(), CrossedPairs()]

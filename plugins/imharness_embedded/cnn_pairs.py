"""Forced choices between what small networks leave of a crop: the CNN-based distortions of the LPIPS paper."""

from pathlib import Path
from typing import Self

import numpy as np
import torch
from pydantic import Field, model_validator

from imharness.data import ImageDataset, ImageRng, Images, Info, derive_seed, hookimpl
from imharness.files import file_digest
from imharness_embedded.pairs import MILD, DistortedPairs
from imharness_vision.distortions.networks import PUBLISHED, networks_in, redrawn

SHIPPED = Path(__file__).parent / "weights" / "cnn-distortions.safetensors"
SHIPPED_NETWORKS = 8


class CnnPairs(DistortedPairs):
    """Forced choices between a crop that one network changed a little and the same crop that another changed much.

    The networks are denoising autoencoders as in table 2 (right) of Zhang et al. (CVPR 2018): eight small ones that
    ship with this package, or up to 96 in a file of `harness train cnn-distortions`. A severity is the share of the way
    from the crop to the network's output. That the milder alternative is nearer is a proxy: networks differ in what
    they leave of an image, and nobody was asked.
    """

    info = Info(id="harness/cnn-pairs", version="1")
    family = "cnn-based"
    networks: int = Field(
        default=SHIPPED_NETWORKS, ge=2, le=PUBLISHED, description="Number of networks; 96 in the paper."
    )
    weights: str = Field(
        default="", description="File of `harness train cnn-distortions`, on this machine; empty: the eight that ship."
    )

    @model_validator(mode="after")
    def _has_networks(self) -> Self:
        if not self.weights and self.networks > SHIPPED_NETWORKS:
            remedy = f"harness train cnn-distortions --networks {self.networks} --out FOLDER"
            raise ValueError(f"{SHIPPED_NETWORKS} networks ship; train more with {remedy} and name their file")
        return self

    @property
    def file(self) -> Path:
        """The file of the networks."""
        return Path(self.weights) if self.weights else SHIPPED

    def require(self) -> None:
        """Raise `Unavailable` if a folder is named and has no images, or if the networks are not in their file."""
        super().require()
        networks_in(self.file, self.networks, torch.device("cpu"))

    def content(self) -> str:
        """Return a digest of the folder's images and of the networks."""
        return super().content() + file_digest(self.file)

    @torch.no_grad()
    def _distorted(self, images: Images, groups: list[str], strength: tuple[float, float]) -> Images:
        """Return every image on its way through one network, with severities drawn between the two strengths.

        The two alternatives of a choice have different networks.
        """
        networks = networks_in(self.file, self.networks, images.device)
        seeds = [derive_seed("cnn-pairs", group, self.size, *strength) for group in groups]
        (low, high), out = strength, images.clone()
        chosen = self._networks(groups, strength)
        severity = low + (high - low) * ImageRng(seeds).uniform(1)[:, 0]
        for number in np.unique(chosen):
            rows = np.flatnonzero(chosen == number).tolist()
            streams = ImageRng([derive_seed("noise", seeds[i]) for i in rows])
            out[rows] = redrawn(images[rows], networks[number], severity[rows], streams)
        return out

    def _networks(self, groups: list[str], strength: tuple[float, float]) -> np.ndarray:
        """Return the number of each image's network: its group draws two, of which the first changes it mildly."""
        index = 0 if strength == MILD else 1
        drawn = (np.random.default_rng(derive_seed("cnn-networks", group, self.size)) for group in groups)
        return np.array([rng.choice(self.networks, 2, replace=False)[index] for rng in drawn])


@hookimpl
def components() -> list[ImageDataset]:
    return [CnnPairs()]

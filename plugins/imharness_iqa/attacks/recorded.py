"""An attack whose images exist already: for an original it returns the attacked image from a folder."""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import numpy as np
import torch
from pydantic import Field

from imharness.data import asset_path, thumbnails
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.files import files_digest, read_pixels
from imharness.images import Attack, AttackInfo, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.attacked_folder import HOW, AttackedFolder, Condition, attacked_folder

ALIKE = 0.97
"""The least correlation of thumbnails that shows one photograph.

A strong attack may lead below it; it does not make the image look like another photograph.
"""


class Recorded(Attack):
    """Images that somebody attacked, from a folder, of one attack; no defense was known, and no metric is asked."""

    info = AttackInfo(
        id="harness/recorded", version="1", access="black_box", norm="unrestricted", distortion="linf", strengths={}
    )
    address = "path"
    opt_in = True
    path: str = Field(default="", description="Folder with index.csv, here or among the assets.")
    method: str = Field(default="", description="The attack, as the index names it, with (...) for [...].")
    metric: str = Field(default="", description="The attacked metric; a run sets it.")
    strength: str = Field(default="", description="The strength; a run sets it.")

    def at(self, strength: str) -> Self:
        """Return the attack at a strength of the index."""
        return self.with_parameters(strength=strength)

    def listed(self) -> AttackedFolder:
        """Return the content of the folder's index; raises `Unavailable` without one."""
        if not self.path:
            raise Unavailable("no folder of attacked images is named", HOW)
        return attacked_folder(asset_path(self.path))

    def require(self) -> None:
        """Raise `Unavailable` unless the folder has images of the attack."""
        listed = self.listed()
        if self.method not in (names := {condition.attack for condition in listed.attacked}):
            raise Unavailable(f"{self.path} has no attack {self.method!r}", f"name one of {', '.join(sorted(names))}")

    def content(self) -> str:
        """Return a digest of the images for the metric and the strength; "" where the folder is not here."""
        try:
            pairs = self._pairs()
        except (Unavailable, UsageError):  # `require` says it
            return ""
        folder = asset_path(self.path)
        return files_digest(folder, [folder / file for pair in pairs.items() for file in pair])

    def build(self, device: torch.device) -> Perturb:
        folder = asset_path(self.path)
        originals = {original: read_pixels(folder / original) for original in self._pairs()}
        by_pixels = {_digest(originals[original]): (original, file) for original, file in self._pairs().items()}
        looks = _looks(originals)

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            pixels = images.mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
            stack = np.stack([self._attacked(image, folder, by_pixels, looks) for image in pixels])
            if (stack == pixels).all():
                warnings.warn(
                    f"{self.path}: images of {self.method} for {self.metric}, {self.strength}, equal their "
                    "originals in every pixel; are they the attacked ones?",
                    stacklevel=2,
                )
            return torch.from_numpy(stack).permute(0, 3, 1, 2).to(images.device) / 255

        return perturb

    def _pairs(self) -> Mapping[str, str]:
        """Return original file -> attacked file."""
        return self.listed().attacked.get(Condition(self.metric, self.method, self.strength), {})

    def _attacked(
        self,
        original: np.ndarray,
        folder: Path,
        by_pixels: Mapping[str, tuple[str, str]],
        looks: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """Return the attacked image of an original, uint8 ``(H, W, 3)``.

        `by_pixels`: digest of an original -> its file and the attacked file; `looks`: thumbnails of all originals.
        Raises `ContractError` where the folder has none, or one of another size or photograph.
        """
        name, file = by_pixels.get(_digest(original), ("", ""))
        if not file:
            raise ContractError(f"{self.label}: {self.path} has no image that was made from one of the images")
        attacked = read_pixels(folder / file)
        if attacked.shape != original.shape:
            raise ContractError(
                f"{self.label}: {file} has {attacked.shape[1]}x{attacked.shape[0]} px, its original "
                f"{original.shape[1]}x{original.shape[0]}"
            )
        if other := _other(_looks({file: attacked})[file], name, looks):
            raise ContractError(
                f"{self.label}: {file} looks like {other}, and not like {name}, from which it is said to be made; are "
                "files mixed up?"
            )
        return attacked


def _looks(pictures: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return name -> normalised thumbnail of pictures, uint8 ``(H, W, 3)``; the product of two is their correlation."""
    small = thumbnails(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255 for pixels in pictures.values())
    centred = small - small.mean(axis=1, keepdims=True)
    return dict(zip(pictures, centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9), strict=True))


def _other(look: np.ndarray, name: str, looks: Mapping[str, np.ndarray]) -> str:
    """Return another original that an attacked image looks like; "" if it looks like its own, `name`, or like none.

    `look`: thumbnail of the attacked image.
    """
    if look @ looks[name] >= ALIKE:
        return ""
    return next((other for other in looks if look @ looks[other] >= ALIKE > looks[name] @ looks[other]), "")


def _digest(pixels: np.ndarray) -> str:
    return hashlib.sha256(repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()).hexdigest()


@hookimpl
def components() -> list[Attack]:
    return [Recorded()]

"""Reads a folder of evidence: `evidence.toml` and the images that it names. Loads no torch.

Every name lies in the folder and is followed through no link, every file is bounded before it is decoded, arrays are
plain numbers, and pixels are 8 bits: the leaderboards round attacked images to 8 bits before anything reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from imharness.components.registry import explain
from imharness.contracts.component import ID_PATTERN
from imharness.errors import UsageError
from imharness.reading.arrays import read_arrays
from imharness.reading.images import check_inflated, other_than_rgb, read_pixels
from imharness.reading.opening import MIB, read_bytes
from imharness.reading.structured import read_toml, texts_in
from imharness.reading.text import is_plain
from imharness.results.identity import digest
from imharness_submissions.manifest import LONGEST, PLACEHOLDERS

FILE = "evidence.toml"
IMAGES = 5_000
PIXELS = 400_000_000
"""The most pixels of all images together: 1.2 GB of 8-bit values."""
FILE_BYTES = 512 * MIB
DEPTH_AND_COLOURS = b"\x08\x02"
"""Bytes 24 and 25 of a PNG with 8 bits for each of three colours: no table of colours, no alpha."""
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
PLACE = rf"^({_PART}/)*{_PART}\.(png|npz:[A-Za-z0-9_-]+)$"

Pixels = npt.NDArray[np.uint8]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HandedInImage(_Strict):
    """An image: its `name` in the data set, the sha256 of the original, and where the attacked one is.

    `clean` is of the original's bytes as 8 bits ``(H, W, 3)``. `file` is a PNG, or ``images.npz:array``.
    """

    name: str = Field(min_length=1, max_length=300)
    clean: str = Field(pattern=r"^[0-9a-f]{64}$")
    file: str = Field(pattern=PLACE, max_length=300)


class Manifest(_Strict):
    """The content of `evidence.toml`.

    `entry` is the id or label of a listed entry. `task` (role or option -> value, such as ``dataset``, ``metric``,
    ``method`` and ``strength``) names a listed attack on it, whose budget the images keep.
    """

    format: Literal[1]
    summary: str = Field(min_length=10, max_length=500)
    authors: tuple[str, ...] = Field(min_length=1, max_length=20)
    contact: str = Field(pattern=r"^\S+@\S+\.\S+$|^https://\S+$", description="An e-mail address or a page.")
    track: str = Field(pattern=ID_PATTERN)
    entry: str = Field(min_length=3, max_length=300)
    task: Mapping[str, str]
    images: tuple[HandedInImage, ...] = Field(min_length=1, max_length=IMAGES)

    @model_validator(mode="before")
    @classmethod
    def _lines(cls, content: Any) -> Any:
        wrong = next((text for text in texts_in(content) if not is_plain(text) or len(text) > LONGEST), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r:.80} must be one line of text, of {LONGEST} characters at most")
        return content

    @field_validator("authors", "contact")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        if set([value] if isinstance(value, str) else value) & set(PLACEHOLDERS.values()):
            raise ValueError("this is a placeholder; replace it")
        return value

    @field_validator("images")
    @classmethod
    def _distinct(cls, images: tuple[HandedInImage, ...]) -> tuple[HandedInImage, ...]:
        names = [image.name for image in images]
        if len(set(names)) != len(names):
            raise ValueError("an image is named twice")
        return images


@dataclass(frozen=True)
class HandedIn:
    """A manifest with its images, uint8 ``(H, W, 3)``, in the order of the manifest."""

    manifest: Manifest
    pixels: tuple[Pixels, ...]

    @cached_property
    def digest(self) -> str:
        """The sha256 of what is claimed and of all pixels; authors and summary do not count."""
        manifest, names = self.manifest, [image.name for image in self.manifest.images]
        different = {id(pixels): pixels for pixels in self.pixels}  # one picture may be named often
        digests = {key: _sha256(pixels) for key, pixels in different.items()}
        images = sorted(zip(names, (digests[id(pixels)] for pixels in self.pixels), strict=True))
        return digest([manifest.track, manifest.entry, dict(manifest.task), images])


def read_evidence(folder: Path) -> HandedIn:
    """Return the evidence in a folder; raises `UsageError` that names the file and what is wrong with it."""
    path = folder / FILE
    if not path.exists():
        raise UsageError(f"{path} does not exist; write one with `harness evidence new`.")
    content = read_toml(path)
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error, Manifest)}") from None
    arrays: dict[Path, Mapping[str, npt.NDArray[Any]]] = {}
    pictures, decoded = dict[Path, Pixels](), dict[bytes, Pixels]()
    pixels, remaining = list[Pixels](), PIXELS
    for image in manifest.images:
        name, _, array = image.file.partition(":")
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()) or (folder / name).is_symlink():
            raise UsageError(f"{folder / name} leads out of the folder, or is a link.")
        if array:
            if file not in arrays:
                names = [i.file.partition(":")[2] for i in manifest.images if i.file.startswith(f"{name}:")]
                arrays[file] = read_arrays(file, dict.fromkeys(names), FILE_BYTES)
            picture = _eight_bits(arrays[file][array], f"{file.name}: {array}")
        else:
            if file not in pictures:
                pictures[file] = _picture(file, decoded)
            picture = pictures[file]
        remaining -= picture.shape[0] * picture.shape[1]
        if remaining < 0:
            raise UsageError(f"{folder}: the images have more than {PIXELS} pixels together.")
        pixels.append(picture)
    return HandedIn(manifest, tuple(pixels))


def _picture(file: Path, decoded: dict[bytes, Pixels]) -> Pixels:
    """Return the pixels of a file; `decoded` holds those of all files so far by their sha256, and gets these."""
    content = read_bytes(file, FILE_BYTES, links=False)
    sha256 = hashlib.sha256(content).digest()
    if sha256 not in decoded:
        # Before anything is decoded: a stranger reaches no decoder but that of PNG.
        if not content.startswith(b"\x89PNG") or content[24:26] != DEPTH_AND_COLOURS:
            raise UsageError(f"{file.name} is not a PNG of three colours with 8 bits each.")
        check_inflated(file, content)
        if other_than_rgb(file):
            raise UsageError(f"{file.name} is not a PNG of three colours with 8 bits each.")
        decoded[sha256] = read_pixels(file, content)
    return decoded[sha256]


def _eight_bits(picture: npt.NDArray[Any], where: str) -> Pixels:
    """Return an array as uint8 ``(H, W, 3)``; floats must be multiples of 1/255 in [0, 1]."""
    if picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape:
        raise UsageError(f"{where} has the shape {picture.shape}; an image is (H, W, 3).")
    if picture.dtype == np.uint8:
        return np.ascontiguousarray(picture)
    if picture.dtype.kind != "f":
        raise UsageError(f"{where} holds {picture.dtype}; an image is uint8, or float in [0, 1].")
    if not np.isfinite(picture).all():
        raise UsageError(f"{where} holds NaN or infinity.")
    scaled = picture.astype(np.float64) * 255
    if scaled.min() < -1e-3 or scaled.max() > 255 + 1e-3 or np.abs(scaled - scaled.round()).max() > 1e-3:
        raise UsageError(f"{where}: values are not multiples of 1/255 in [0, 1]; attacked images count as 8 bits.")
    return np.ascontiguousarray(scaled.round().clip(0, 255).astype(np.uint8))


def _sha256(pixels: Pixels) -> str:
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()

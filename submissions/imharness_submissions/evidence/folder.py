"""Reads a folder of evidence: `evidence.toml` and the images that it names. Loads no torch.

Every name lies in the folder and is followed through no link, every file is bounded before it is decoded, arrays are
plain numbers, and pixels are 8 bits: the boards round attacked images to 8 bits before anything reads them.
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
from imharness.reading.images import other_than_rgb, read_pixels
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
"""Two bytes of the first chunk of a PNG with 8 bits for each of three colours: no table of colours, no alpha."""
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

    `entry` is the id or label of a listed entry. `cell` (role or option -> value, such as ``dataset``, ``metric``,
    ``method`` and ``strength``) names a listed attack on it, whose budget the images keep.
    """

    format: Literal[1]
    summary: str = Field(min_length=10, max_length=500)
    authors: tuple[str, ...] = Field(min_length=1, max_length=20)
    contact: str = Field(pattern=r"^\S+@\S+\.\S+$|^https://\S+$", description="An e-mail address or a page.")
    track: str = Field(pattern=ID_PATTERN)
    entry: str = Field(min_length=3, max_length=300)
    cell: Mapping[str, str]
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
    def _filled_in(cls, given: Any) -> Any:
        if set([given] if isinstance(given, str) else given) & set(PLACEHOLDERS.values()):
            raise ValueError("this is a placeholder; replace it")
        return given

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
        own, names = self.manifest, [image.name for image in self.manifest.images]
        images = sorted(zip(names, map(_sha256, self.pixels), strict=True))
        return digest([own.track, own.entry, dict(own.cell), images])


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
    pixels, left = list[Pixels](), PIXELS
    for image in manifest.images:
        name, _, array = image.file.partition(":")
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()) or (folder / name).is_symlink():
            raise UsageError(f"{folder / name} leads out of the folder, or is a link.")
        if array:
            if file not in arrays:
                names = [i.file.partition(":")[2] for i in manifest.images if i.file.startswith(f"{name}:")]
                arrays[file] = read_arrays(file, dict.fromkeys(names), FILE_BYTES)
            found = _eight_bits(arrays[file][array], f"{file.name}: {array}")
        else:
            found = _picture(file)
        left -= found.shape[0] * found.shape[1]
        if left < 0:
            raise UsageError(f"{folder}: the images have more than {PIXELS} pixels together.")
        pixels.append(found)
    return HandedIn(manifest, tuple(pixels))


def _picture(file: Path) -> Pixels:
    content = read_bytes(file, FILE_BYTES, links=False)
    found = read_pixels(file, content)
    if not content.startswith(b"\x89PNG") or content[24:26] != DEPTH_AND_COLOURS or other_than_rgb(file):
        raise UsageError(f"{file.name} is not a PNG of three colours with 8 bits each.")
    return np.ascontiguousarray(found)


def _eight_bits(found: npt.NDArray[Any], where: str) -> Pixels:
    """Return an array as uint8 ``(H, W, 3)``; floats must be multiples of 1/255 in [0, 1]."""
    if found.ndim != 3 or found.shape[2] != 3 or 0 in found.shape:
        raise UsageError(f"{where} has the shape {found.shape}; an image is (H, W, 3).")
    if found.dtype == np.uint8:
        return np.ascontiguousarray(found)
    if found.dtype.kind != "f":
        raise UsageError(f"{where} holds {found.dtype}; an image is uint8, or float in [0, 1].")
    if not np.isfinite(found).all():
        raise UsageError(f"{where} holds NaN or infinity.")
    scaled = found.astype(np.float64) * 255
    if scaled.min() < -1e-3 or scaled.max() > 255 + 1e-3 or np.abs(scaled - scaled.round()).max() > 1e-3:
        raise UsageError(f"{where}: values are not multiples of 1/255 in [0, 1]; attacked images count as 8 bits.")
    return np.ascontiguousarray(scaled.round().clip(0, 255).astype(np.uint8))


def _sha256(pixels: Pixels) -> str:
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()

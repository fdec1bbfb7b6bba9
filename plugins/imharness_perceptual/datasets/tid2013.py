"""TID2013 in its published layout: ``tid2013:FOLDER``.

Ponomarenko et al., "Image database TID2013: Peculiarities, results and perspectives" (Signal Processing: Image
Communication 2015): reference_images/I01.BMP, distorted_images/i01_05_3.bmp (image, distortion, level) and
mos_with_names.txt, a score and a name per line.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import DataSource, ImageDataset, Images, ImageSet, Info, data_folder, hookimpl
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.files import MIB, files_digest, image_shape, images_below, number, read_text
from imharness_vision.image_files import read_files

SCORES, REFERENCES, DISTORTED = "mos_with_names.txt", "reference_images", "distorted_images"
NAME = re.compile(r"i[0-9]{2}_[0-9]{2}_[0-9]\.bmp")
SIZES = (128, 192, 256, 384, 512)
"""Shorter sides at which Zhang et al. (CVPR 2018) compare, in px (appendix C); the images have 384."""
SOURCE = DataSource(
    name="tid2013",
    licence="free for research",
    page="https://www.ponomarenko.info/tid2013.htm",
    steps="get https://www.ponomarenko.info/tid2013/tid2013.rar (about 913 MB), unpack it with bsdtar -xf "
    "tid2013.rar or 7-Zip, and give the folder that holds mos_with_names.txt",
    members=(f"{DISTORTED}/", f"{REFERENCES}/", SCORES),
    units=3_025,
    shape=(384, 512),
)


class Tid2013(ImageDataset):
    """25 photographs in 24 distortions of five levels, with opinion scores."""

    info = Info(id="harness/tid2013", version="1", paper="ponomarenko2015")
    address = "path"
    path: str = Field(
        default="", description="The folder that holds mos_with_names.txt; empty: tid2013, among the assets."
    )
    size: int = Field(
        default=0, ge=0, le=512, description="Shorter side to which images are resized, in px; 0: not resized."
    )

    def variants(self) -> list["Tid2013"]:
        """Return the data set at the sizes of Zhang et al. (CVPR 2018), appendix C."""
        return [self.with_parameters(size=size) for size in SIZES]

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the published images come from."""
        return () if self.path else (SOURCE,)

    def published_units(self) -> int:
        """Return how many images the published set has."""
        return 0 if self.path else SOURCE.units

    def require(self) -> None:
        """Raise `Unavailable` unless the scores are there."""
        if not (self._root / SCORES).is_file():
            raise Unavailable(f"{self._root} has no {SCORES}", SOURCE.by_hand())

    @property
    def _root(self) -> Path:
        """Return the folder; raises `Unavailable` where neither a path nor the asset is there."""
        return Path(self.path) if self.path else data_folder(SOURCE.name, SOURCE.page)

    def content(self) -> str:
        """Return a digest of the scores and the images."""
        try:
            self.require()
        except Unavailable:
            return ""
        root = self._root
        return files_digest(root, [root / SCORES, *_images(root / REFERENCES), *_images(root / DISTORTED)])

    def build(self, device: torch.device) -> ImageSet:
        """Return references and distorted images; ``severity`` is the level, ``family`` the distortion's number."""
        self.require()
        root = self._root
        originals = {file.stem.upper(): file for file in _images(root / REFERENCES)}
        distorted = {file.name.lower(): file for file in _images(root / DISTORTED)}
        files, rows = [], []
        for name, file in originals.items():
            files.append(file)
            rows.append((name, name, "reference", 0, float("nan")))
        for where, name, score in _scores(root / SCORES):
            source, family, level = name.removesuffix(".bmp").split("_")
            if name not in distorted or source.upper() not in originals:
                raise ContractError(f"{where}: {name} or its reference {source.upper()} is missing")
            files.append(distorted[name])
            rows.append((name, source.upper(), family, int(level), score))
        names, references, families, levels, scores = zip(*rows, strict=True)

        def load(positions: Sequence[int]) -> Images:
            return read_files((files[p] for p in positions), self._fit)

        columns = {
            "reference": np.array(references),
            "family": np.array(families),
            "severity": np.array(levels),
            "mos": np.array(scores),
        }
        return ImageSet(tuple(names), tuple(_shape(file, self.size) for file in files), load, columns)

    def _fit(self, image: Image.Image) -> Image.Image:
        if not self.size:
            return image
        larger = self.size > min(image.size)
        how = Image.Resampling.BICUBIC if larger else Image.Resampling.BOX
        return image.resize(_scaled(image.size, self.size), how)


def _images(folder: Path) -> list[Path]:
    return images_below(folder).paths if folder.is_dir() else []


def _scores(file: Path) -> Iterator[tuple[str, str, float]]:
    """Yield place, name and score of each line; raises `ContractError` for one that has no score of a distortion."""
    for count, line in enumerate(read_text(file, 16 * MIB).split("\n"), 1):
        words, where = line.split(), f"{file}, line {count}"
        if not words:
            continue
        if len(words) != 2 or not NAME.fullmatch(words[1].lower()):
            raise ContractError(f"{where}: {line!r:.60} is not a score and a name such as i01_05_3.bmp")
        yield where, words[1].lower(), number(words[0], f"{where}: the score")


def _shape(file: Path, size: int) -> tuple[int, int]:
    try:
        height, width = image_shape(file)
    except UsageError as error:
        raise ContractError(str(error)) from None
    width, height = _scaled((width, height), size)
    return height, width


def _scaled(shape: tuple[int, int], size: int) -> tuple[int, int]:
    factor = size / min(shape) if size else 1.0
    return round(shape[0] * factor), round(shape[1] * factor)


@hookimpl
def components() -> list[ImageDataset]:
    return [Tid2013()]

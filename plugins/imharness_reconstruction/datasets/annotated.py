"""Reconstructions that people judged, in the published folder layout of SemSim: ``annotated:FOLDER``.

A folder NAME/ holds an original, ``*_ori.png``, and the reconstructions that were recognised; the folder -NAME/ holds
those that were not (github SonyResearch/SemSim, folder human_anno_id/train_with_ori). A file index.csv with the columns
file, dataset, attack, model, defense is optional; studies that leave something out need it. If several originals were
taken from one photograph, its column source names the photograph of each.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, Info, hookimpl
from imharness.errors import ContractError, Unavailable
from imharness.files import file_digest, files_digest, images_below, read_csv, said_of_misnamed, said_of_spellings
from imharness_vision.image_files import read_files

ORIGINAL = "_ori"
INDEX = "index.csv"
FACTS = ("dataset", "attack", "model", "defense")


@dataclass(frozen=True)
class Judged:
    """An image of the folder.

    `reference`: the folder NAME of its original. `recognised`: 1, 0 if it was not recognised, or -1 for the original.
    """

    file: Path
    reference: str
    recognised: int


class Annotated(ImageDataset):
    """Originals and their reconstructions, each recognised or not."""

    info = Info(id="harness/annotated", version="4", paper="sun2023")
    address = "path"
    path: str = Field(default="", description="The folder that holds NAME/ and -NAME/.")
    size: int = Field(default=32, ge=8, le=512, description="Side to which all images are resized, px.")

    def require(self) -> None:
        """Raise `Unavailable` unless the folder is there."""
        if not self.path:
            raise Unavailable("no folder of annotations is named", "--dataset annotated:FOLDER")
        if not Path(self.path).is_dir():
            raise Unavailable(f"{self.path} is not a folder", "--dataset annotated:FOLDER")

    def content(self) -> str:
        """Return a digest of all files."""
        root = Path(self.path)
        if not self.path or not root.is_dir():
            return ""
        return files_digest(root, sorted(file for file in root.rglob("*") if file.is_file()))

    def build(self, device: torch.device) -> ImageSet:
        """Return originals and reconstructions; columns: ``reference``, ``recognised``, and those of the index."""
        self.require()
        root = Path(self.path)
        judged = sorted(_judged(root), key=lambda j: (j.reference, -j.recognised, j.file.name))
        if not judged:
            raise ContractError(
                f"{root} contains no annotated images; expected folders NAME with NAME/*_ori.png, and -NAME"
            )
        names = tuple(j.file.relative_to(root).as_posix() for j in judged)
        columns = {
            "reference": np.array([j.reference for j in judged]),
            "recognised": np.array([j.recognised for j in judged]),
        } | _index(root, names, [j.reference for j in judged])

        def load(positions: Sequence[int]) -> Images:
            return read_files((judged[p].file for p in positions), self._fit)

        return ImageSet(names, ((self.size, self.size),) * len(names), load, columns)

    def _fit(self, image: Image.Image) -> Image.Image:
        side = (self.size, self.size)
        return image if image.size == side else image.resize(side, Image.Resampling.BICUBIC)


def _judged(root: Path) -> list[Judged]:
    """Return all images; raises `ContractError` for a folder without an original, or with several."""
    census = images_below(root).only(lambda name: name.count("/") == 1, "in no folder NAME or -NAME: move them")
    if sentence := census.sentence():
        warnings.warn(sentence, stacklevel=3)
    judgements, strange = [], []
    for file in census.paths:
        reference, positive = file.parent.name.removeprefix("-"), not file.parent.name.startswith("-")
        original = file.stem.endswith(ORIGINAL)
        if original and not positive:
            strange.append(file)
        else:
            judgements.append(Judged(file, reference, -1 if original else int(positive)))
    if strange:
        warnings.warn(
            f"{strange[0]}: {len(strange)} originals stand among reconstructions that were not recognised, and are "
            "left out",
            stacklevel=3,
        )
    originals = Counter(j.reference for j in judgements if j.recognised < 0)
    if several := sorted(reference for reference, count in originals.items() if count > 1):
        raise ContractError(f"{root / several[0]}: there are {originals[several[0]]} originals (*{ORIGINAL}); keep one")
    lost = sorted({j.reference for j in judgements} - set(originals))
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ContractError(
            f"{root / lost[0]}{more}: there is no original; expected a file whose name ends in {ORIGINAL}.png"
        )
    if both := _judged_twice(judgements):
        warnings.warn(
            f"{both[0].file}: {len(both)} reconstructions stand among those that were recognised and among those that "
            "were not",
            stacklevel=3,
        )
    return judgements


def _judged_twice(judgements: Sequence[Judged]) -> list[Judged]:
    """Return the recognised reconstructions that are, byte by byte, also among those that were not recognised."""

    def digests(recognised: int) -> dict[tuple[str, str], Judged]:
        return {(j.reference, file_digest(j.file)): j for j in judgements if j.recognised == recognised}

    yes, no = digests(1), digests(0)
    return [yes[key] for key in sorted(yes.keys() & no.keys())]


def _index(root: Path, names: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the columns of index.csv for the images `names`, and their photographs; nothing without the file."""
    if not (root / INDEX).is_file():
        if sentence := said_of_misnamed(root / INDEX):
            warnings.warn(sentence, stacklevel=3)
        return {}
    table = read_csv(root / INDEX)
    columns = {name: column for name in ("file", "source", *FACTS) if (column := table.column(name))}
    if "file" not in columns:
        raise ContractError(f"{root / INDEX} has no column 'file'")
    rows = ({name: line[column] for name, column in columns.items()} for _, line in table.rows())
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        if lines.setdefault(PurePosixPath(row["file"]).as_posix(), row) != row:
            raise ContractError(f"{root / INDEX} has two lines of {row['file']} that differ")
    if absent := [name for name in names if name not in lines and not PurePosixPath(name).stem.endswith(ORIGINAL)]:
        warnings.warn(
            f"{root / INDEX} has no line for {len(absent)} reconstructions, such as {absent[0]}: they count as "
            "taken from the photograph of their folder",
            stacklevel=3,
        )
    if gone := sorted(set(lines) - set(names)):
        warnings.warn(
            f"{root / INDEX} has lines for {len(gone)} images that are not there, such as {gone[0]}: they do not count",
            stacklevel=3,
        )
    index_rows = [lines.get(name, {}) for name in names]
    sources = [row.get("source") or reference for row, reference in zip(index_rows, references, strict=True)]
    if sentence := said_of_spellings(sources, "photographs"):
        warnings.warn(f"{root / INDEX}: {sentence}", stacklevel=3)
    return {fact: np.array([row.get(fact, "") for row in index_rows]) for fact in FACTS} | {"source": np.array(sources)}


@hookimpl
def components() -> list[ImageDataset]:
    return [Annotated()]

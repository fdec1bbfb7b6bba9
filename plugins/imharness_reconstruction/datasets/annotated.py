"""Reconstructions that people judged, in the published folder layout of SemSim: ``annotated:FOLDER``.

A folder NAME/ holds an original, ``*_ori.png``, and the reconstructions that were recognised; the folder -NAME/ holds
those that were not (github SonyResearch/SemSim, folder human_anno_id/train_with_ori). A file index.csv with the columns
file, dataset, attack, model, defense is optional; studies that leave something out need it. If several originals were
taken from one photograph, its column source names the photograph of each.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, Info, hookimpl
from imharness.errors import ContractError, Unavailable
from imharness.files import read_csv
from imharness_vision.image_files import read_files

SUFFIXES = (".png", ".jpg", ".jpeg")
ORIGINAL = "_ori"
INDEX = "index.csv"
FACTS = ("dataset", "attack", "model", "defense")


@dataclass(frozen=True)
class Judged:
    """One image: its file, the folder of its original, and 1 (recognised), 0 (not recognised) or -1 (the original)."""

    file: Path
    reference: str
    recognised: int


class Annotated(ImageDataset):
    """Originals and their reconstructions, each recognised or not."""

    info = Info(id="harness/annotated", version="2", paper="sun2023")
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
        """Return a digest of file names and sizes."""
        root = Path(self.path)
        if not self.path or not root.is_dir():
            return ""
        state = sorted((str(f.relative_to(root)), f.stat().st_size) for f in root.rglob("*") if f.is_file())
        return hashlib.sha256(repr(state).encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return originals and reconstructions; columns: ``reference``, ``recognised``, and those of the index."""
        self.require()
        root = Path(self.path)
        judged = sorted(_judged(root), key=lambda j: (j.reference, -j.recognised, j.file.name))
        if not judged:
            raise ContractError(
                f"{root} contains no annotated images; expected folders NAME with NAME/*_ori.png, and -NAME"
            )
        names = tuple(str(j.file.relative_to(root)) for j in judged)
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
    found = []
    for folder in sorted(p for p in root.iterdir() if p.is_dir()):
        reference, positive = folder.name.removeprefix("-"), not folder.name.startswith("-")
        for file in sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES):
            original = positive and file.stem.endswith(ORIGINAL)
            found.append(Judged(file, reference, -1 if original else int(positive)))
    have = {j.reference for j in found if j.recognised < 0}
    lost = sorted({j.reference for j in found} - have)
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ContractError(
            f"{root / lost[0]}{more}: there is no original; expected a file whose name ends in {ORIGINAL}.png"
        )
    return found


def _index(root: Path, names: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    if not (root / INDEX).is_file():
        return {}
    table = read_csv(root / INDEX)
    if "file" not in table.columns:
        raise ContractError(f"{root / INDEX} has no column 'file'")
    lines = {line["file"]: line for _, line in table.rows()}
    found = [lines.get(name, {}) for name in names]
    sources = [line.get("source") or reference for line, reference in zip(found, references, strict=True)]
    return {fact: np.array([line.get(fact, "") for line in found]) for fact in FACTS} | {"source": np.array(sources)}


@hookimpl
def components() -> list[ImageDataset]:
    return [Annotated()]

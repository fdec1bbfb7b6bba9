"""BAPPS, the judgements of the LPIPS paper, in the published layout: ``bapps:FOLDER``.

Zhang et al., CVPR 2018, section 2. Forced choices: FOLDER/2afc/{val,train}/FAMILY/{ref,p0,p1}/*.png with judge/*.npy,
the share of people who found p1 nearer. Just noticeable differences: FOLDER/jnd/val/FAMILY/{p0,p1}/*.png with
same/*.npy.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import Archive, DataSource, ImageDataset, Images, ImageSet, Info, data_folder, hookimpl
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.files import MIB, read_array
from imharness_vision.image_files import read_files

FOLDERS = {"2afc": ("ref", "p0", "p1"), "jnd": ("p0", "p1")}
VERDICT = {"2afc": "judge", "jnd": "same"}
PARTS = {"test": "val", "train": "train"}
JUDGES = {("2afc", "test"): 5, ("2afc", "train"): 2, ("jnd", "test"): 3, ("jnd", "train"): 3}
"""The number of people who were asked about each pair (section 2.2)."""
BUCKET = "https://perceptual-similarity.s3.us-west-2.amazonaws.com/dataset"
SOURCE = DataSource(
    name="bapps",
    licence="BSD-2-Clause",
    page="https://github.com/richzhang/PerceptualSimilarity",
    archives=(
        Archive(
            file="twoafc_val.tar.gz",
            address=f"{BUCKET}/twoafc_val.tar.gz",
            sha256="41486671b06de923e7ba277c4797d4d9d86d609863ba35ecdb576133f8b9d859",
            into="2afc",
        ),
        Archive(
            file="twoafc_train.tar.gz",
            address=f"{BUCKET}/twoafc_train.tar.gz",
            sha256="b4f5c772c7cd88ac44bcb4ff0741745d434c05f0094f2bfb262ddcd0055bf393",
            into="2afc",
        ),
        Archive(file="jnd.tar.gz", address=f"{BUCKET}/jnd.tar.gz"),
    ),
    members=("2afc/val/", "jnd/val/"),
    optional=("2afc/train/",),
)
PUBLISHED = {("2afc", "test"): 36_300, ("2afc", "train"): 151_400, ("jnd", "test"): 9_600, ("jnd", "train"): 0}
"""The number of judged pairs, rounded to hundreds (table 3)."""


@dataclass(frozen=True)
class _Entry:
    file: Path
    name: str
    reference: str
    family: str
    group: str
    choice: int
    verdict: float


class Bapps(ImageDataset):
    """Berkeley-Adobe perceptual patch similarity: forced choices, or just noticeable differences."""

    info = Info(id="harness/bapps", version="2", paper="zhang2018")
    address = "path"
    path: str = Field(default="", description="The folder that holds 2afc/ and jnd/; empty: bapps, among the assets.")
    test: Literal["2afc", "jnd"] = Field(
        default="2afc", description="The test: forced choices, or just noticeable differences."
    )
    split: Literal["test", "train"] = Field(default="test", description="The published val or train part.")
    size: int = Field(
        default=64, ge=16, le=256, description="Side to which patches are resized, in px; 64 in the paper."
    )

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the published patches come from."""
        return () if self.path else (SOURCE,)

    def published_units(self) -> int:
        """Return the images of the published part: both sides of each pair, and the reference of a choice."""
        return 0 if self.path else PUBLISHED[self.test, self.split] * (len(FOLDERS[self.test]))

    def require(self) -> None:
        """Raise `Unavailable` unless the part is there."""
        if not self._root.is_dir():
            raise Unavailable(f"{self._root} is not on this machine", SOURCE.by_hand())

    @property
    def _root(self) -> Path:
        """Return the folder of the part; raises `Unavailable` where neither a path nor the asset is there."""
        place = Path(self.path) if self.path else data_folder(SOURCE.name, SOURCE.page)
        return place / self.test / PARTS[self.split]

    def content(self) -> str:
        """Return a digest of names and sizes."""
        try:
            self.require()
        except Unavailable:
            return ""
        state = sorted((str(f), f.stat().st_size) for f in self._root.rglob("*") if f.is_file())
        return hashlib.sha256(repr(state).encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return references and the patches that are compared with them, with the columns of the test."""
        self.require()
        entries = list(self._entries())
        if not entries:
            wanted = ", ".join((*FOLDERS[self.test], VERDICT[self.test]))
            raise ContractError(f"{self._root} contains no judged patches; expected FAMILY/ with the folders {wanted}")

        def load(positions: Sequence[int]) -> Images:
            return read_files((entries[p].file for p in positions), self._fit)

        columns = {
            "reference": np.array([e.reference for e in entries]),
            "family": np.array([e.family for e in entries]),
            VERDICT[self.test]: np.array([e.verdict for e in entries]),
            "judges": np.array([0 if np.isnan(e.verdict) else JUDGES[self.test, self.split] for e in entries]),
        }
        if self.test == "2afc":
            columns["group"] = np.array([e.group for e in entries])
            columns["choice"] = np.array([e.choice for e in entries])
        return ImageSet(tuple(e.name for e in entries), ((self.size, self.size),) * len(entries), load, columns)

    def _entries(self) -> Iterator[_Entry]:
        first, *others = FOLDERS[self.test]
        for family in sorted(f for f in self._root.iterdir() if f.is_dir()):
            for reference in sorted((family / first).glob("*.png")):
                group = f"{family.name}/{reference.stem}"
                verdict = _verdict(family / VERDICT[self.test] / f"{reference.stem}.npy")
                origin = f"{group}/{first}"
                yield _Entry(reference, origin, origin, family.name, "", -1, float("nan"))
                for choice, other in enumerate(others):
                    file = family / other / reference.name
                    yield _Entry(file, f"{group}/{other}", origin, family.name, group, choice, verdict)

    def _fit(self, image: Image.Image) -> Image.Image:
        side = (self.size, self.size)
        return image if image.size == side else image.resize(side, Image.Resampling.BILINEAR)


def _verdict(file: Path) -> float:
    try:
        found = read_array(file, MIB).reshape(-1)
    except UsageError as error:
        raise ContractError(f"{file} contains no share of people: {error}") from None
    if not len(found) or not 0 <= found[0] <= 1:
        raise ContractError(f"{file} does not hold a share of people, a number from 0 to 1")
    return float(found[0])


@hookimpl
def components() -> list[ImageDataset]:
    return [Bapps(), Bapps(test="jnd")]

"""BAPPS, the judgements of the LPIPS paper, in the published layout: ``bapps:FOLDER``.

Zhang et al., CVPR 2018, section 2. Forced choices: FOLDER/2afc/{val,train}/FAMILY/{ref,p0,p1}/*.png with judge/*.npy,
the share of people who found p1 nearer. Just noticeable differences: FOLDER/jnd/val/FAMILY/{p0,p1}/*.png with
same/*.npy. A file patches.csv beside the families, with the columns patch (FAMILY/NAME), photograph and judges, says
which patches were cut from one photograph and how many people were asked about each. Without it, patches whose
references look the same count as one photograph, and as many people were asked as for the published patches.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import (
    COPY,
    Archive,
    DataSource,
    ImageDataset,
    Images,
    ImageSet,
    Info,
    by_looks,
    data_folder,
    hookimpl,
    said_of_copies,
    thumbnails,
)
from imharness.errors import ContractError, Unavailable, UsageError
from imharness.files import (
    MIB,
    Census,
    files_digest,
    image_shape,
    images_below,
    number,
    read_array,
    read_csv,
    said_of_misnamed,
    said_of_spellings,
)
from imharness_vision.image_files import read_files, remembered

FOLDERS = {"2afc": ("ref", "p0", "p1"), "jnd": ("p0", "p1")}
"""Test -> the folders of images: the reference first, then those that are compared with it. In jnd, p0 is the
reference."""
VERDICT = {"2afc": "judge", "jnd": "same"}
"""Test -> the folder of what people answered, which is also the name of the column."""
PATCHES, COLUMNS = "patches.csv", ("patch", "photograph", "judges")
PARTS = {"test": "val", "train": "train"}
"""Split -> its folder."""
JUDGES = {("2afc", "test"): 5, ("2afc", "train"): 2, ("jnd", "test"): 3, ("jnd", "train"): 3}
"""The number of people who were asked about each pair (section 2.2)."""
SLACK = 1e-3
"""How far a rounded share of people may lie from a multiple of 1 / people."""
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
    """A patch. `name`: FAMILY/NAME/FOLDER; `reference`: the name of the patch with which it is compared.

    Of a patch that is compared, `choice` is 0 or 1, `verdict` is the share of people, and `group` is FAMILY/NAME. Of a
    reference they are -1, NaN and "".
    """

    file: Path
    name: str
    reference: str
    family: str
    group: str
    choice: int
    verdict: float


class Bapps(ImageDataset):
    """Berkeley-Adobe perceptual patch similarity: forced choices, or just noticeable differences."""

    info = Info(id="harness/bapps", version="3", paper="zhang2018")
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
        folder = Path(self.path) if self.path else data_folder(SOURCE.name, SOURCE.page)
        return folder / self.test / PARTS[self.split]

    def content(self) -> str:
        """Return a digest of all files."""
        try:
            self.require()
        except Unavailable:
            return ""
        return files_digest(self._root, sorted(file for file in self._root.rglob("*") if file.is_file()))

    def build(self, device: torch.device) -> ImageSet:
        """Return references and the patches that are compared with them, with the columns of the test."""
        self.require()
        entries = list(self._entries())
        if not entries:
            wanted = ", ".join((*FOLDERS[self.test], VERDICT[self.test]))
            raise ContractError(f"{self._root} contains no judged patches; expected FAMILY/ with the folders {wanted}")

        def load(positions: Sequence[int]) -> Images:
            return read_files((entries[p].file for p in positions), self._fit)

        photographs, judges = self._about(entries)
        if sentence := self._said_of_sizes(entries):
            warnings.warn(f"{self._root}: {sentence}", stacklevel=3)
        columns = {
            "reference": np.array([e.reference for e in entries]),
            "photograph": np.array(photographs),
            "family": np.array([e.family for e in entries]),
            VERDICT[self.test]: np.array([e.verdict for e in entries]),
            "judges": np.array(judges),
        }
        if self.test == "2afc":
            columns["group"] = np.array([e.group for e in entries])
            columns["choice"] = np.array([e.choice for e in entries])
        return ImageSet(tuple(e.name for e in entries), ((self.size, self.size),) * len(entries), load, columns)

    def _entries(self) -> Iterator[_Entry]:
        first, *others = FOLDERS[self.test]
        for family in sorted(f for f in self._root.iterdir() if f.is_dir() and not f.name.startswith(".")):
            census = images_below(family / first) if (family / first).is_dir() else Census(family / first, ())
            census = census.only(lambda name: "/" not in name, "in a folder of its own: move them up")
            if sentence := census.sentence():
                warnings.warn(sentence, stacklevel=3)
            for reference in census.paths:
                group = f"{family.name}/{reference.stem}"
                verdict = _verdict(family / VERDICT[self.test] / f"{reference.stem}.npy")
                origin = f"{group}/{first}"
                yield _Entry(reference, origin, origin, family.name, "", -1, float("nan"))
                for choice, other in enumerate(others):
                    file = family / other / reference.name
                    yield _Entry(file, f"{group}/{other}", origin, family.name, group, choice, verdict)

    def _about(self, entries: Sequence[_Entry]) -> tuple[list[str], list[float]]:
        """Return the photograph of each entry, and how many people were asked about it.

        The number of people is 0 for a reference, and NaN where the folder does not say. Warns of verdicts that are no
        share of the usual number of people; raises `ContractError` for one that is no share of the stated number.
        """
        table = self._root / PATCHES
        references = [e for e in entries if e.name == e.reference]
        patches = [e.name.rpartition("/")[0] for e in references]
        if table.is_file():
            photographs, people = _listed(table, patches)
            named = dict(zip(patches, photographs, strict=True))
            if sentence := said_of_copies(named, lambda: self._thumbnails(references)):
                warnings.warn(f"{table}: {sentence}", stacklevel=3)
        else:
            if sentence := said_of_misnamed(table):
                warnings.warn(sentence, stacklevel=3)
            photographs = self._looks(references, patches)
            usual = JUDGES[self.test, self.split]
            odd = [
                f"{e.family}/{e.file.stem}"
                for e in entries
                if e.file.parent.name == FOLDERS[self.test][-1] and not _is_share_of(e.verdict, usual)
            ]
            if odd:
                warnings.warn(
                    f"{self._root}: {len(odd)} verdicts, as of {odd[0]}, are no share of {usual} people; say "
                    f"how many were asked in {PATCHES}, whose columns are {', '.join(COLUMNS)}",
                    stacklevel=3,
                )
            people = [float("nan") if odd else float(usual)] * len(patches)
        names = [e.name for e in references]
        photograph_of = dict(zip(names, photographs, strict=True))
        people_of = dict(zip(names, people, strict=True))
        judges = [0.0 if np.isnan(e.verdict) else people_of[e.reference] for e in entries]
        for e, n in zip(entries, judges, strict=True):
            if not np.isnan(e.verdict) and not np.isnan(n) and not _is_share_of(e.verdict, n):
                raise ContractError(f"{table}: {e.verdict:g} is no share of the {n:g} people asked about {e.name}")
        return [photograph_of[e.reference] for e in entries], judges

    def _said_of_sizes(self, entries: Sequence[_Entry]) -> str:
        """Return a sentence on patches of another size than the reference they are compared with; "" without any.

        The published patches are all of one size, and are not looked at.
        """
        if not self.path:
            return ""
        shapes = {e.name: _shape(e.file) for e in entries}
        odd = [e for e in entries if shapes[e.name] != shapes[e.reference]]
        if not odd:
            return ""
        (height, width), (of_reference, across) = shapes[odd[0].name], shapes[odd[0].reference]
        return (
            f"{len(odd)} patches have another size than their reference, such as {odd[0].name} of {width} x {height} "
            f"px beside {across} x {of_reference} px; all are resized to {self.size} px, which changes what people saw"
        )

    def _looks(self, references: Sequence[_Entry], patches: Sequence[str]) -> list[str]:
        """Return the photograph of each patch: the name of the first patch whose reference looks the same."""
        looks = by_looks(patches, lambda: self._thumbnails(references), COPY)
        if looks.sentence:
            warnings.warn(
                f"{self._root}: {looks.sentence}; if that is wrong, or if other patches were cut from one photograph, "
                f"say so in {PATCHES}, whose columns are {', '.join(COLUMNS)}",
                stacklevel=4,
            )
        return looks.photographs

    def _thumbnails(self, references: Sequence[_Entry]) -> np.ndarray:
        files = [e.file for e in references]
        images = (read_files([file], self._fit) for file in files)
        return remembered("thumbnails", f"{self.size} {files_digest(self._root, files)}", images, thumbnails)

    def _fit(self, image: Image.Image) -> Image.Image:
        side = (self.size, self.size)
        return image if image.size == side else image.resize(side, Image.Resampling.BILINEAR)


def _listed(table: Path, patches: Sequence[str]) -> tuple[list[str], list[float]]:
    """Return the photograph of each patch, and how many people were asked about it, as the table says."""
    content = read_csv(table)
    lost = [column for column in COLUMNS if column not in content.columns]
    if lost:
        raise UsageError(f"{table} has no column {lost[0]}.")
    rows: dict[str, tuple[int, dict[str, str]]] = {}
    for line, row in content.rows():
        patch = row["patch"].removesuffix(".png")
        if patch in rows:
            raise UsageError(f"{table}, line {line}: {patch} has a line already, {rows[patch][0]}.")
        if not row["photograph"].strip():
            raise UsageError(f"{table}, line {line}: photograph is empty.")
        rows[patch] = line, row
    absent = [patch for patch in patches if patch not in rows]
    if absent:
        raise UsageError(f"{table} has no line for {len(absent)} patches, such as {absent[0]}.")
    people = [number(rows[patch][1]["judges"], f"{table}, line {rows[patch][0]}: judges") for patch in patches]
    wrong = [patch for patch, count in zip(patches, people, strict=True) if count < 1 or not count.is_integer()]
    if wrong:
        raise UsageError(f"{table}, line {rows[wrong[0]][0]}: judges must be a number of people, 1 or more.")
    photographs = [rows[patch][1]["photograph"].strip() for patch in patches]
    if sentence := said_of_spellings(photographs, "photographs"):
        warnings.warn(f"{table}: {sentence}", stacklevel=4)
    return photographs, people


def _shape(file: Path) -> tuple[int, int]:
    try:
        return image_shape(file)
    except UsageError as error:
        raise ContractError(str(error)) from None


def _is_share_of(verdict: float, people: float) -> bool:
    return abs(verdict * people - round(verdict * people)) < SLACK * people


def _verdict(file: Path) -> float:
    """Return the share of people in a file, in [0, 1]; raises `ContractError` for any other content."""
    try:
        values = read_array(file, MIB).reshape(-1)
    except UsageError as error:
        raise ContractError(f"{file} contains no share of people: {error}") from None
    if len(values) != 1 or not 0 <= values[0] <= 1:
        raise ContractError(f"{file} does not hold a share of people, which is one number from 0 to 1")
    return float(values[0])


@hookimpl
def components() -> list[ImageDataset]:
    return [Bapps(), Bapps(test="jnd")]

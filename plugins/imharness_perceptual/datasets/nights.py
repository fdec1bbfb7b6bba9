"""NIGHTS, the judgements of the DreamSim paper, in the published layout: ``nights:FOLDER``.

Fu et al., "DreamSim" (NeurIPS 2023), section 3: triplets of generated images. FOLDER/data.csv has a line for each, with
the columns id, left_vote and right_vote (1 for the image that people found nearer to the reference), votes (the number
of people, who all agreed), ref_path, left_path and right_path (below FOLDER), split (train, val or test) and
is_imagenet. As in the authors' code, triplets with fewer than six votes are left out, and images are resized to 224 px.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from imharness.data import Archive, DataSource, ImageDataset, Images, ImageSet, Info, data_folder, hookimpl
from imharness.errors import ContractError, Unavailable
from imharness.files import files_digest, number, read_csv
from imharness_vision.image_files import read_files

TABLE, FEWEST = "data.csv", 6
"""The table of judgements, and the fewest votes of a triplet that counts."""
SIDES = ("left", "right")
COLUMNS = ("id", "right_vote", "votes", "ref_path", "left_path", "right_path", "split", "is_imagenet")
TRUTH = {"true": True, "false": False}
SOURCE = DataSource(
    name="nights",
    licence="MIT",
    page="https://github.com/ssundaram21/dreamsim",
    archives=(Archive(file="nights.zip", address="https://data.csail.mit.edu/nights/nights.zip"),),
    members=(TABLE, "ref/", "distort/"),
)


@dataclass(frozen=True)
class _Triplet:
    """A line of the table. `files`: reference, left and right image; `family`: imagenet or other.

    `right`: the share of people who found the right image nearer, 0 or 1; `votes`: how many people were asked.
    """

    id: str
    files: tuple[Path, Path, Path]
    family: str
    right: float
    votes: float


class Nights(ImageDataset):
    """Novel image generations with human-tested similarities: forced choices between generated images."""

    info = Info(id="harness/nights", version="1", paper="fu2023")
    address = "path"
    path: str = Field(default="", description="The folder that holds data.csv; empty: nights, among the assets.")
    split: Literal["test", "val", "train"] = Field(default="test", description="The published part.")
    size: int = Field(default=224, ge=16, le=768, description="Side to which images are resized, in px.")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the published images come from."""
        return () if self.path else (SOURCE,)

    def require(self) -> None:
        """Raise `Unavailable` unless the table is there."""
        if not (self._root / TABLE).is_file():
            raise Unavailable(f"{self._root} has no {TABLE}", SOURCE.by_hand())

    @property
    def _root(self) -> Path:
        """Return the folder; raises `Unavailable` where neither a path nor the asset is there."""
        return Path(self.path) if self.path else data_folder(SOURCE.name, SOURCE.page)

    def content(self) -> str:
        """Return a digest of the table and all images."""
        try:
            self.require()
        except Unavailable:
            return ""
        return files_digest(self._root, sorted(file for file in self._root.rglob("*") if file.is_file()))

    def build(self, device: torch.device) -> ImageSet:
        """Return each reference, followed by its left and its right image.

        ``judge`` of both images is the share of people who found the right one nearer, as in `bapps` the share for p1;
        ``family`` says whether the category is one of ImageNet.
        """
        self.require()
        triplets = list(self._triplets())
        if not triplets:
            raise ContractError(f"{self._root / TABLE} has no triplet of the split {self.split} with {FEWEST} votes")
        names = [f"{t.id}/{side}" for t in triplets for side in ("reference", *SIDES)]
        files = [file for t in triplets for file in t.files]

        def load(positions: Sequence[int]) -> Images:
            return read_files((files[p] for p in positions), self._fit)

        columns = {
            "reference": np.array([f"{t.id}/reference" for t in triplets for _ in t.files]),
            "photograph": np.array([f"{t.id}/reference" for t in triplets for _ in t.files]),
            "family": np.array([t.family for t in triplets for _ in t.files]),
            "group": np.array([group for t in triplets for group in ("", t.id, t.id)]),
            "choice": np.array([choice for _ in triplets for choice in (-1, 0, 1)]),
            "judge": np.array([share for t in triplets for share in (np.nan, t.right, t.right)]),
            "judges": np.array([people for t in triplets for people in (0.0, t.votes, t.votes)]),
        }
        return ImageSet(tuple(names), ((self.size, self.size),) * len(names), load, columns)

    def _triplets(self) -> Iterator[_Triplet]:
        table = self._root / TABLE
        content = read_csv(table)
        columns = {name: content.column(name) for name in COLUMNS}
        if lost := [name for name, column in columns.items() if not column]:
            raise ContractError(f"{table} has no column {lost[0]}")
        for line, fields in content.rows():
            row, where = {name: fields[column].strip() for name, column in columns.items()}, f"{table}, line {line}"
            right, votes = (number(row[name], f"{where}: {name}") for name in ("right_vote", "votes"))
            if right not in (0, 1) or row["is_imagenet"].lower() not in TRUTH:
                raise ContractError(f"{where}: right_vote is 0 or 1, and is_imagenet True or False")
            if row["split"] != self.split or votes < FEWEST:
                continue
            paths = [Path(row[name]) for name in ("ref_path", "left_path", "right_path")]
            if wrong := [path for path in paths if path.is_absolute() or ".." in path.parts]:
                raise ContractError(f"{where}: {wrong[0]} is no file below the folder of the table")
            files = (self._root / paths[0], self._root / paths[1], self._root / paths[2])
            family = "imagenet" if TRUTH[row["is_imagenet"].lower()] else "other"
            yield _Triplet(row["id"], files, family, right, votes)

    def _fit(self, image: Image.Image) -> Image.Image:
        side = (self.size, self.size)
        return image if image.size == side else image.resize(side, Image.Resampling.BICUBIC)


@hookimpl
def components() -> list[ImageDataset]:
    return [Nights()]

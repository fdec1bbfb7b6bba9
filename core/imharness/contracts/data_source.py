"""What a data set says of its published files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from imharness.contracts.assets import Asset

NAME = r"^[a-z0-9][a-z0-9._-]*$"
PART = r"^[^/\\][^\\]*$"


class Archive(BaseModel):
    """A published file of a data set, packed or not.

    `address`: where it can be downloaded; empty: a person gets it. `size`: bytes, 0: not published. `sha256`: empty
    where none is published; then the layout alone tells the right file. `into`: the folder that it is unpacked into,
    where its own names begin further down than those of the data set.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^[^/\\]+$")
    address: str = Field(default="", pattern=r"^(https://.*)?$")
    size: int = Field(default=0, ge=0)
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{8,64})?$")
    into: str = ""


class DataSource(BaseModel):
    """The published files of a data set, and what the loader finds in them.

    `name`: the folder among the assets that the loader reads. `page`: where the data set is described. `steps`: what a
    person does to get it, where a file has no address. `members`: files, or folders that end in a slash, which must be
    in the folder; `optional` ones may be. `nested`: archives inside the archives that hold members. `units`: how many
    images or rows the loader gives, 0: any number. `shape`: of each, 0 where it varies: height and width of images,
    features of rows; empty: any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME)
    licence: str
    page: str
    archives: tuple[Archive, ...] = ()
    steps: str = ""
    members: tuple[str, ...] = Field(min_length=1)
    optional: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    units: int = Field(default=0, ge=0)
    shape: tuple[int, ...] = ()

    @property
    def has_address(self) -> bool:
        """Say whether every file can be downloaded."""
        return bool(self.archives) and all(archive.address for archive in self.archives)

    def downloads(self) -> list[Asset]:
        """Return the files that have an address, as assets among the downloads."""
        return [
            Asset(
                name=self.name, file=f"downloads/{self.name}/{archive.file}", sha256=archive.sha256, size=archive.size,
                licence=self.licence, source=self.page, address=archive.address,
            )
            for archive in self.archives if archive.address
        ]  # fmt: skip

    def by_hand(self) -> str:
        """Return how a person gets the files, in one sentence that ends in the command."""
        files = " ".join(archive.file for archive in self.archives) or "FILE_OR_FOLDER"
        return f"{self.steps or f'get {files} from {self.page}'}; then: harness assets import {self.name} {files}"

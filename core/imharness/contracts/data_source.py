"""What a data set states about its published files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from imharness.contracts.assets import Asset

NAME = r"^[a-z0-9][a-z0-9._-]*$"
PART = r"^[^/\\][^\\]*$"


class Archive(BaseModel):
    """A published file of a data set, packed or not.

    `address` is where it can be downloaded, or empty if a person must get it. `size` is in bytes, or 0 if it is not
    published. `sha256` is empty if none is published; then only the layout tells whether the file is the right one.
    `into` is the folder that the archive is unpacked into, if its own names lack the first folders of the data set.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^[^/\\]+$")
    address: str = Field(default="", pattern=r"^(https://.*)?$")
    size: int = Field(default=0, ge=0)
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{8,64})?$")
    into: str = ""


class DataSource(BaseModel):
    """The published files of a data set, and what the loader finds in them.

    `name` is the folder among the assets that the loader reads, `page` the address of the description. `steps` says
    what a person does to get the data if a file has no address. `members` are the files, and the folders, which end in
    a slash, that must be in the folder; `optional` ones may be there. `nested` are archives inside the archives that
    hold members. `units` is how many images or rows the loader gives; 0 means any number. `shape` is the height and
    width of each image, or the features of each row; 0 means that this size varies, and an empty tuple any shape.
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
        """Whether every file can be downloaded."""
        return bool(self.archives) and all(archive.address for archive in self.archives)

    def downloads(self) -> list[Asset]:
        """Return the files that have an address, as assets in the folder of downloads."""
        return [
            Asset(
                name=self.name,
                file=f"downloads/{self.name}/{archive.file}",
                sha256=archive.sha256,
                size=archive.size,
                licence=self.licence,
                source=self.page,
                address=archive.address,
            )
            for archive in self.archives
            if archive.address
        ]

    def by_hand(self) -> str:
        """Return how a person gets the files: one sentence that ends in the command."""
        files = " ".join(archive.file for archive in self.archives) or "FILE_OR_FOLDER"
        return f"{self.steps or f'get {files} from {self.page}'}; then: harness assets import {self.name} {files}"

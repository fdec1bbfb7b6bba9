"""Weights and data files that do not ship with the code: where they are, and how to get them.

A file is searched in the folders of ``HARNESS_ASSETS`` (separated as in PATH) and in the user's cache. Building a
component never downloads anything; `harness assets get` does.
"""

import functools
import hashlib
import os
from contextlib import suppress
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ConfigDict, Field

from imharness.errors import Unavailable, UsageError
from imharness.reading.opening import printable


class Asset(BaseModel):
    """A file by name, with the digest that it must have.

    `file` is the path inside an asset folder. `address` is where the file can be downloaded; if it is empty, a person
    must put the file there, and `steps` or `source` says where it comes from. `sha256` may be only the first digits, if
    the publisher gives no more, and is empty if none is published: such a file is opened as weights only, and its
    tensors must fit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    file: str = Field(pattern=r"^[^/\\][^\\]*$")
    sha256: str = Field(pattern=r"^([0-9a-f]{8,64})?$")
    size: int = Field(default=0, ge=0, description="bytes; 0: not known")
    licence: str
    source: str
    address: str = Field(default="", pattern=r"^(https://.*)?$")
    steps: str = ""

    def path(self) -> Path:
        """Return the verified file; raises `Unavailable` when it is absent or damaged."""
        for folder in folders():
            candidate = folder / self.file
            if candidate.is_file():
                stat = candidate.stat()
                if self.fits(_sha256(candidate, stat.st_size, stat.st_mtime_ns)):
                    return candidate
                raise Unavailable(
                    f"{candidate} is damaged: sha256 is not {self.sha256[:12]}…",
                    f"rm {candidate}; harness assets get {self.name}",
                )
        raise Unavailable(f"asset {self.name} is not on this machine", self.remedy())

    def remedy(self) -> str:
        """Return how to get the file: a command, after what a person must do first."""
        if self.address:
            return f"harness assets get {self.name}"
        steps = self.steps or f"download {Path(self.file).name} from {self.source}"
        return f"{steps}; then: harness assets import {self.name} {Path(self.file).name}"

    def fits(self, digest: str) -> bool:
        """Return whether a full sha256 is the one of this file."""
        return digest.startswith(self.sha256)


def cache_folder() -> Path:
    """Return the folder that downloads go to."""
    return Path(platformdirs.user_cache_dir("image-privacy-harness")) / "assets"


def folders() -> list[Path]:
    """Return the folders that are searched for assets, in this order."""
    listed = [Path(folder) for folder in os.environ.get("HARNESS_ASSETS", "").split(os.pathsep) if folder]
    return [*listed, cache_folder()]


def import_folder() -> Path:
    """Return the folder that imports go to: the first of ``HARNESS_ASSETS`` that can be written, or else the cache."""
    for folder in folders()[:-1]:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return cache_folder()


def data_folder(name: str, source: str) -> Path:
    """Return the folder `name` inside the first asset folder that has it; raises `Unavailable` when none does."""
    for folder in folders():
        if (folder / name).is_dir():
            return folder / name
    raise Unavailable(f"data set {name} is not on this machine", f"harness assets get {name} (from {source})")


def asset_path(path: str) -> Path:
    """Return the file or folder that a path names: as it is, or else inside the first asset folder that has it.

    Raises `UsageError` for a path that names one here and another one in an asset folder: either may be meant.
    """
    here = Path(path)
    inside = next((folder / path for folder in folders() if (folder / path).exists()), here)
    if here.exists() and not here.samefile(inside):
        raise UsageError(
            f"{path} names {printable(here.absolute())}, and {printable(inside.absolute())} among the assets; give the "
            "full path of the one that you mean, or start the command in another folder."
        )
    return inside


def add_folder(folder: Path) -> None:
    """Search `folder` first, in this process and in those it starts."""
    rest = os.environ.get("HARNESS_ASSETS", "")
    os.environ["HARNESS_ASSETS"] = os.pathsep.join(filter(None, [str(folder), rest]))


@functools.lru_cache(maxsize=256)
def _sha256(path: Path, size: int, modified: int) -> str:
    """Return the sha256 of a file; a file is hashed once while its size and its time of change stay the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

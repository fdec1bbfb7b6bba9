"""Files with digests, and documents of data models, at one address."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, ValidationError

from imharness.errors import DamagedError, StoreError
from imharness.results.storage.address import open_backend
from imharness.results.storage.backend import sha256_of

M = TypeVar("M", bound=BaseModel)


class StoredFile(BaseModel):
    """A file of the store with its digest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    size: int


class Files:
    """The files at an address; several processes and machines may share them."""

    def __init__(self, address: str | Path) -> None:
        self.backend = open_backend(address)
        self.address = self.backend.address

    @property
    def root(self) -> Path:
        """The folder of a local store."""
        return Path(self.address)

    def prepare(self) -> None:
        """Make the place ready and check that it can be written; raises `StoreError` otherwise."""
        self.backend.prepare()

    def together(self, *, soon: bool = False) -> AbstractContextManager[None]:
        """Flush the results that the block writes to the disk by its end; see `Backend`."""
        return self.backend.together(soon=soon)

    def settle_or_exit(self) -> None:
        """Wait until everything is on the disk; if that fails, end this process with one line and exit status 1."""
        try:
            with self.together():
                pass
        except StoreError as error:
            raise SystemExit(str(error)) from None

    def put(self, file: str, content: bytes) -> StoredFile:
        """Write a file that is named by its content, completely or not at all."""
        self.backend.put(file, content)
        return StoredFile(file=file, sha256=sha256_of(content), size=len(content))

    def content(self, file: StoredFile) -> bytes:
        """Return the content of a stored file, verified; raises `DamagedError` if it is not what was written."""
        where, sha256 = f"{self.address}/{file.file}", file.sha256
        content = self.backend.get(file.file, lambda found: sha256_of(found) == sha256)
        if content is None:
            raise DamagedError(f"cannot read {where}: there is no such file")
        if sha256_of(content) != sha256:
            raise DamagedError(f"{where} is damaged: its sha256 is not the recorded one; run again to recompute it")
        return content

    def path_of(self, file: StoredFile) -> Path:
        """Return the path where a stored file can be read on this machine."""
        return self.backend.path(file.file, file.sha256)

    def replace(self, name: str, document: BaseModel) -> None:
        """Write the next state of a document, such as ``submissions/<name>.json``."""
        self.backend.replace(name, text_of(document))

    def current(self, name: str, model: type[M]) -> M | None:
        """Return a document, or None if there is none; raises `DamagedError` if it does not fit the model."""
        content = self.backend.current(name)
        return None if content is None else self.valid(name, content, model)

    def documents(self, folder: str, model: type[M]) -> list[M]:
        """Return the documents below a folder, sorted by name; damaged ones are left out."""
        found = []
        for name in self.names(folder):
            with suppress(DamagedError):
                found.append(self.current(f"{folder}/{name}.json", model))
        return [document for document in found if document is not None]

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time change tables, if the place has locks; raises `StoreError` after a long wait."""
        return self.backend.alone()

    def names(self, folder: str) -> list[str]:
        """Return the names of the documents below a folder, sorted, without the folder and ``.json``."""
        found = (name for name in self.backend.documents(folder) if name.endswith(".json"))
        return [name[len(folder) + 1 : -5] for name in found]

    def valid(self, name: str, content: bytes, model: type[M]) -> M:
        """Return a content as a model; raises a `DamagedError` that names the file if it does not fit."""
        try:
            return model.model_validate_json(content)
        except ValidationError:
            raise DamagedError(
                f"{self.address}/{name} is not a valid {model.__name__}; delete it to compute it again"
            ) from None


def text_of(document: BaseModel) -> bytes:
    """Return a document as the content of its file."""
    return document.model_dump_json(indent=1).encode()


def packed(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the content of a safetensors file with these arrays.

    It is made in a temporary file, which takes as much memory as the arrays; without room for a file it takes twice as
    much.
    """
    with suppress(OSError, safetensors.SafetensorError), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrays"
        safetensors.numpy.save_file(dict(arrays), file)
        return file.read_bytes()
    return safetensors.numpy.save(dict(arrays))

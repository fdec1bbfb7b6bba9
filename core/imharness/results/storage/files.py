"""Files with digests, and documents of data models, at one address."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, ValidationError

from imharness.errors import DamagedError
from imharness.results.storage.address import open_backend
from imharness.results.storage.backend import sha256_of
from imharness.results.storage.damage import changed, damage

M = TypeVar("M", bound=BaseModel)
_BEFORE_SEAL, _AFTER_SEAL = b',\n "seal": "', b'"\n}'
_END = b"\n}"
"""How a document without its seal ends."""
_SEALED_END = len(_BEFORE_SEAL) + 64 + len(_AFTER_SEAL)
"""The bytes that take the place of `_END` in a document with its seal."""


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

    def put(self, file: str, content: bytes) -> StoredFile:
        """Write a file that is named by its content, completely or not at all."""
        self.backend.put(file, content)
        return StoredFile(file=file, sha256=sha256_of(content), size=len(content))

    def content(self, file: StoredFile) -> bytes:
        """Return the content of a stored file, verified; raises `DamagedError` if it is not what was written."""
        return self.verified(file.file, file.sha256)

    def verified(self, name: str, sha256: str) -> bytes:
        """Return the content of a file that has this sha256; raises `DamagedError`."""
        content = self.backend.get(name, lambda data: sha256_of(data) == sha256)
        if content is None or sha256_of(content) != sha256:
            raise changed(self.address, name, content)
        return content

    def path_of(self, file: StoredFile) -> Path:
        """Return the path where a stored file can be read on this machine, verified; raises `DamagedError`."""
        return self.backend.path(file.file, file.sha256)

    def intact(self, file: StoredFile, size: int) -> bool:
        """Return whether a file of this size is what was written.

        A file at a distance is fetched only to be used, and verified then; until then its size counts.
        """
        if size != file.size:
            return False
        try:
            if self.backend.near:
                self.backend.path(file.file, file.sha256)
        except DamagedError:
            return False
        return True

    def replace(self, name: str, document: BaseModel) -> None:
        """Write the next state of a document, such as ``submissions/<name>.json``."""
        self.backend.replace(name, text_of(document))

    def current(self, name: str, model: type[M]) -> M | None:
        """Return a document, or None if there is none; raises `DamagedError` if its seal or the model does not fit."""
        content = self.backend.current(name)
        return None if content is None else self.valid(name, content, model)

    def sealed(self, name: str) -> bytes | None:
        """Return the file of a document, or None without one; raises `DamagedError` if it does not fit its seal."""
        content = self.backend.current(name)
        if content is not None:
            self._unsealed(name, content)
        return content

    def documents(self, folder: str, model: type[M]) -> Iterator[M | DamagedError]:
        """Yield the documents below a folder, sorted by name; a damaged one yields its error."""
        for name in self.names(folder):
            try:
                document = self.current(f"{folder}/{name}.json", model)
            except DamagedError as error:
                yield error
            else:
                if document is not None:
                    yield document

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time change tables, if the place has locks; raises `StoreError` after a long wait."""
        return self.backend.alone()

    def names(self, folder: str) -> list[str]:
        """Return the names of the documents below a folder, sorted, without the folder and ``.json``."""
        documents = (name for name in self.backend.documents(folder) if name.endswith(".json"))
        return [name[len(folder) + 1 : -5] for name in documents]

    def valid(self, name: str, content: bytes, model: type[M]) -> M:
        """Return a content as a model; raises a `DamagedError` that names the file if it does not fit."""
        try:
            return model.model_validate_json(self._unsealed(name, content))
        except ValidationError:
            what = f"is not a valid {model.__name__}: another version of the harness wrote it"
            raise damage(self.address, name, what) from None

    def _unsealed(self, name: str, content: bytes) -> bytes:
        """Return a content without its member ``seal``, see `text_of`; raises `DamagedError` if it does not fit."""
        body, end = content[:-_SEALED_END], content[-_SEALED_END:]
        rest = body + _END
        seal = end[len(_BEFORE_SEAL) : -len(_AFTER_SEAL)].decode("ascii", "replace")
        if content != _with_seal(rest, seal) or sha256_of(rest) != seal:
            raise damage(self.address, name, "was changed after it was written: its seal does not fit")
        return rest


def text_of(document: BaseModel) -> bytes:
    """Return a document as the content of its file: JSON whose last member ``seal`` is the sha256 of the rest.

    ``{"a": 1}``, one member on each line, becomes ``{"a": 1, "seal": "<64 digits>"}``.
    """
    rest = document.model_dump_json(indent=1).encode()
    return _with_seal(rest, sha256_of(rest))


def _with_seal(rest: bytes, seal: str) -> bytes:
    return rest.removesuffix(_END) + _BEFORE_SEAL + seal.encode() + _AFTER_SEAL


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

"""Objects in a cloud, through pyarrow.fs. An object is written by one request from a buffer that is already complete.

There are no conditional writes: two writers of one name overwrite each other. This does no harm, because results are
named by their content. Each state of a document and each line of a journal is an object of its own, whose name ends in
a digest of its content::

    sweeps/<track>/<configuration>.json/<time>-<digest>
    ledger.jsonl/<number>-<digest>
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import platformdirs
import pyarrow.fs

from imharness.errors import DamagedError, StoreError
from imharness.results.disk import remove_remains
from imharness.results.storage.backend import Sound, in_parallel, sha256_of
from imharness.results.storage.damage import changed
from imharness.results.storage.local import LocalFiles

T = TypeVar("T")
PAUSES_S = (0.1, 1.0)
"""Seconds to wait before a request is repeated; by then the client of the cloud has tried several times itself."""
CLIENT_TRIES = 4
CLIENT_TIME = timedelta(seconds=30)
STATES_KEPT = 3
"""How many states of a document are kept, so that a reader who is about to read an older one finds it."""
PROBE = ".probe"


def connected(scheme: str, environment: Mapping[str, str]) -> pyarrow.fs.FileSystem:
    """Return a client of an object store.

    Credentials, region and endpoint come from the usual variables: those of AWS for s3 (``AWS_ACCESS_KEY_ID``,
    ``AWS_SECRET_ACCESS_KEY``, ``AWS_DEFAULT_REGION``, ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``), those of Google
    for gs (``GOOGLE_APPLICATION_CREDENTIALS``, or ``STORAGE_EMULATOR_HOST``, which is used without credentials).
    """
    if scheme == "gs":
        emulator = environment.get("STORAGE_EMULATOR_HOST", "")
        protocol, _, host = emulator.rpartition("://")
        options = {"anonymous": True, "endpoint_override": host.rstrip("/"), "scheme": protocol or "http"}
        return pyarrow.fs.GcsFileSystem(retry_time_limit=CLIENT_TIME, **(options if emulator else {}))
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    protocol, _, host = endpoint.rpartition("://")
    return pyarrow.fs.S3FileSystem(
        endpoint_override=host.rstrip("/") or None,
        scheme=protocol or "https",
        allow_delayed_open=True,
        connect_timeout=10,
        request_timeout=60,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=CLIENT_TRIES),
    )


class Objects:
    """Objects below ``bucket/path``; any number of processes and machines may share them."""

    at_once = 16
    near = False

    def __init__(self, address: str, files: pyarrow.fs.FileSystem, path: str, cache: Path | None = None) -> None:
        """Use a client and a place in it; fetched objects are kept in the folder `cache`, by default the user's."""
        self.address, self._files, self._path = address, files, path
        self._cache = LocalFiles(cache or Path(platformdirs.user_cache_dir("image-privacy-harness")) / "objects")

    def prepare(self) -> None:
        remove_remains(self._cache.root)
        self.put(PROBE, b"writable")
        if self.get(PROBE) is None:
            raise StoreError(f"store {self.address} does not return what was written into it")

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def writable(self) -> bool:
        return True

    def put(self, name: str, content: bytes) -> None:
        def write() -> None:
            stream = self._files.open_output_stream(f"{self._path}/{name}")
            stream.write(content)
            stream.close()

        self._tried(f"cannot write {self.address}/{name}", write)

    def get(self, name: str, sound: Sound = lambda content: True) -> bytes | None:
        for pause in (*PAUSES_S, None):
            content = self._tried(f"cannot read {self.address}/{name}", partial(self._read, name))
            if content is None or pause is None or sound(content):
                break
            time.sleep(pause)
        return content

    def _read(self, name: str) -> bytes | None:
        where = f"{self._path}/{name}"
        try:
            if self.address.startswith("gs:"):  # some builds of Arrow lack the class of its client
                # Its client checks that all bytes came, and `read_at` would make a second request.
                with self._files.open_input_stream(where) as stream:
                    return bytes(stream.read())
            with self._files.open_input_file(where) as opened:
                size = opened.size()
                content: bytes = opened.read_at(size, 0)
        except FileNotFoundError:
            return None
        if len(content) != size:
            raise OSError(f"{len(content)} of {size} bytes came")
        return content

    def delete(self, name: str) -> None:
        def remove() -> None:
            try:
                self._files.delete_file(f"{self._path}/{name}")
            except FileNotFoundError:
                return

        self._tried(f"cannot remove {self.address}/{name}", remove)

    def size(self, name: str) -> int:
        info = self._tried(
            f"cannot read {self.address}/{name}", lambda: self._files.get_file_info(f"{self._path}/{name}")
        )
        return int(info.size) if info.is_file else -1

    def sizes(self, folder: str) -> dict[str, int]:
        wanted = pyarrow.fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True, recursive=True)
        infos = self._tried(f"cannot list {self.address}/{folder}", lambda: self._files.get_file_info(wanted))
        start = len(self._path) + 1
        return {file.path[start:]: file.size for file in infos if file.is_file}

    def path(self, name: str, sha256: str) -> Path:
        cache_name = f"{sha256[:2]}/{sha256}"
        with suppress(DamagedError):
            return self._cache.path(cache_name, sha256)
        content = self.get(name, lambda data: sha256_of(data) == sha256)
        if content is None or sha256_of(content) != sha256:
            raise changed(self.address, name, content)
        self._cache.put(cache_name, content)
        return self._cache.root / cache_name

    def verified(self, name: str, sha256: str) -> bytes:
        return self.path(name, sha256).read_bytes()

    def replace(self, name: str, content: bytes) -> None:
        states = sorted(self.sizes(name))
        latest = int(_end(states[-1])[:20]) if states else 0
        self.put(f"{name}/{max(time.time_ns(), latest + 1):020d}-{sha256_of(content)[:16]}", content)
        for state in states[: 1 - STATES_KEPT]:
            self.delete(state)

    def current(self, name: str) -> bytes | None:
        for pause in (*PAUSES_S, None):
            states = sorted(self.sizes(name), reverse=True)
            for state in states:
                content = self.get(state, partial(_fits, state))
                if content is not None and not _fits(state, content):  # an earlier state must not pass for the latest
                    raise changed(self.address, state, content)
                if content is not None:
                    return content
            if not states:
                return None
            if pause is not None:  # the listed states have been replaced since
                time.sleep(pause)
        raise StoreError(f"{self.address}/{name} is replaced faster than it can be read; try again")

    def documents(self, folder: str) -> list[str]:
        return sorted({state.rpartition("/")[0] for state in self.sizes(folder)})

    def append(self, name: str, compose: Callable[[Sequence[bytes]], bytes]) -> None:
        names = sorted(self.sizes(name))
        number = int(_end(names[-1]).partition("-")[0]) + 1 if names else 1
        line = compose(self._contents(names))
        self.put(f"{name}/{number:08d}-{sha256_of(line)[:16]}", line)

    def lines(self, name: str) -> list[bytes]:
        return self._contents(sorted(self.sizes(name)))

    def _contents(self, names: Sequence[str]) -> list[bytes]:
        def content(name: str) -> bytes:
            data = self.get(name, partial(_fits, name))
            if data is None or not _fits(name, data):
                raise DamagedError(f"{self.address}/{name} is damaged: it was changed or removed; restore it")
            return data

        return list(in_parallel(content, names, self.at_once))

    def _tried(self, what: str, request: Callable[[], T]) -> T:
        for pause in PAUSES_S:
            with suppress(OSError):
                return request()
            time.sleep(pause)
        try:
            return request()
        except OSError as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"{what}: {reason[:300]}; what was finished before is kept") from None


def _end(name: str) -> str:
    return name.rpartition("/")[2]


def _fits(name: str, content: bytes) -> bool:
    """Return whether a content has the digest at the end of its name."""
    return sha256_of(content)[:16] == name.rpartition("-")[2]

"""Reads NumPy arrays from npy and npz files, which may hold plain numbers but no objects."""

from __future__ import annotations

import ast
import math
import re
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError
from imharness.reading.opening import DAMAGED, GIB, MIB, plain_file, printable
from imharness.reading.text import reason

Array = npt.NDArray[Any]
MEMBERS = 1_000
RATIO = 250
"""The most bytes of arrays for each byte of a file, if they are more than `FREE`."""
FREE = 64 * MIB
_HEAD = 10_000
_NUMBERS = re.compile(r"[<>|=](b1|[iu][1248]|f[248])")
_FAILURES = (*DAMAGED, SyntaxError, MemoryError)
"""What readers of zip files and of array headers raise for other files; a bad header raises `SyntaxError`."""


def read_arrays(path: Path, names: Iterable[str] = (), limit: int = 4 * GIB) -> dict[str, Array]:
    """Return name -> array for the arrays of numbers in an npz file, either those in `names` or all.

    `limit` is the most bytes of all these arrays together. Raises a `UsageError` that says which array is missing or
    wrong.
    """
    with plain_file(path, limit) as file:
        try:
            with zipfile.ZipFile(file) as content:
                members = _members(path, content)
                wanted = list(names) or list(members)
                missing = [name for name in wanted if name not in members]
                if missing:
                    have = ", ".join(map(repr, sorted(members)[:20])) or "nothing"
                    raise UsageError(f"{printable(path)} has no array {' and no '.join(missing)}; it has: {have}.")
                size = sum(members[name].file_size for name in wanted)
                room = min(limit, max(FREE, RATIO * file.seek(0, 2)))
                if size > room:
                    raise UsageError(f"{printable(path)} declares {size} bytes of arrays; at most {room} are read.")
                return {name: _member(path, content, members[name]) for name in wanted}
        except _FAILURES as error:
            raise UsageError(f"{printable(path)} is not an npz file of plain arrays: {reason(error)}") from None


def _members(path: Path, content: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    named_members: dict[str, zipfile.ZipInfo] = {}
    for member in content.infolist():
        name = member.filename.removesuffix(".npy")
        if name in named_members or len(named_members) == MEMBERS:
            raise UsageError(f"{printable(path)} has {name!r:.60} twice, or more than {MEMBERS} arrays.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageError(f"{printable(path)}: {name!r:.60} is compressed in a way that npz files do not use.")
        named_members[name] = member
    return named_members


def _member(path: Path, content: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with content.open(member) as file:
        return _array(f"{printable(path)}: {member.filename!r:.60}", file, member.file_size)


def read_array(path: Path, limit: int = GIB) -> Array:
    """Return the array of numbers in an npy file of at most `limit` bytes; raises `UsageError`."""
    with plain_file(path, limit) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            return _array(printable(path), file, size)
        except _FAILURES as error:
            raise UsageError(f"{printable(path)} is not an npy file of a plain array: {reason(error)}") from None


def _array(where: str, file: IO[bytes], size: int) -> Array:
    """Return the array in an open npy file of `size` bytes; memory is allocated only after header and size agree."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:] not in (b"\x01\x00", b"\x02\x00"):
        raise UsageError(f"{where} is not an npy file of version 1.0 or 2.0.")
    form = struct.Struct("<H" if start[6] == 1 else "<I")
    (length,) = form.unpack(file.read(form.size))
    if length > _HEAD:
        raise UsageError(f"{where} has a header of {length} bytes; at most {_HEAD} are read.")
    head = ast.literal_eval(file.read(length).decode("ascii").strip())
    if not isinstance(head, dict) or head.keys() != {"descr", "fortran_order", "shape"}:
        raise UsageError(f"{where} does not have the header of an npy file.")
    kind, shape, columns_first = head["descr"], head["shape"], head["fortran_order"]
    if not isinstance(kind, str) or not _NUMBERS.fullmatch(kind):
        raise UsageError(f"{where} holds {kind!r:.60}, not plain numbers.")
    if not isinstance(shape, tuple) or len(shape) > 8 or not all(type(n) is int and n >= 0 for n in shape):
        raise UsageError(f"{where} has the shape {shape!r:.60}; at most 8 sizes of at least 0 are read.")
    count, there = math.prod(shape), size - 8 - form.size - length
    if count * np.dtype(kind).itemsize != there:
        raise UsageError(f"{where} declares {count} numbers, but holds {there} bytes of them.")
    content = file.read(there)
    if len(content) != there or file.read(1):
        raise UsageError(f"{where} does not have the length that it declares.")
    return np.frombuffer(bytearray(content), dtype=kind).reshape(shape, order="F" if columns_first is True else "C")

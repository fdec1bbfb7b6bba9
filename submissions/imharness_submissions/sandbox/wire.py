"""Sends messages of tensors and JSON through a pipe: a length, then one safetensors blob. Pickle is never used.

The kind and the facts of a message are JSON in the blob's metadata. Messages are checked before they are used: the
length before memory is allocated, then every name, dtype, shape and offset. Numbers in facts are finite, and texts lose
control characters and half characters.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from imharness.reading.text import stripped

MAGIC = b"HRN1"
_PREFIX = struct.Struct("<4sQ")
_HEADER = struct.Struct("<Q")
HEADER_LIMIT = 4 << 20
_DTYPES = {
    "F64": torch.float64,
    "I64": torch.int64,
    "F32": torch.float32,
    "I32": torch.int32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
OPEN, LONGEST_ORDER = b"open ", 205
"""How an order of a session begins, which a module's name may follow; and the most bytes of an order."""
RESULT = "result"
"""Name of what a component returned among the tensors of an answer; its parts are ``result.<part>``."""
_MAX_DIMENSIONS = 8
_MAX_DEPTH = 32
_BRACKETS = re.compile(r"[\[\]{}]")


class WireError(Exception):
    """The bytes that arrived are not a valid message."""


class Closed(Exception):
    """The process at the other end of the pipe has ended."""


@dataclass(frozen=True)
class Message:
    """A message: its kind, facts that JSON can hold, and tensors by name."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())

    def whole(self, name: str, default: int = 0) -> int:
        """Return a fact that is a whole number; raises `WireError` when it is something else."""
        value = self.facts.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise WireError(f"{value!r:.40} where a number belongs")
        return value

    def names(self, name: str) -> list[str]:
        """Return a fact that is a list of strings (at most 100); empty when it is something else."""
        value = self.facts.get(name)
        return [str(item)[:300] for item in value[:100]] if isinstance(value, list) else []


def pack(message: Message) -> list[memoryview]:
    """Return a message as consecutive buffers; contiguous tensors on the CPU are not copied."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in message.tensors.items()}
    ordered = sorted(tensors, key=lambda name: -tensors[name].element_size())  # every tensor starts aligned
    entries: dict[str, Any] = {
        "__metadata__": {"kind": message.kind, "facts": json.dumps(message.facts, separators=(",", ":"))}
    }
    start = 0
    for name in ordered:
        stop = start + tensors[name].numel() * tensors[name].element_size()
        entries[name] = {
            "dtype": _NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [start, stop],
        }
        start = stop
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    head = _PREFIX.pack(MAGIC, _HEADER.size + len(header) + start) + _HEADER.pack(len(header)) + header
    return [memoryview(head), *(_bytes(tensors[name]) for name in ordered if tensors[name].numel())]


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.as_strided((tensor.numel(),), (1,))  # it is contiguous, but dimensions of size 1 may have any stride
    return _view(flat.view(torch.uint8))


def _view(flat: torch.Tensor) -> memoryview:
    array: Any = flat.numpy()
    return memoryview(array)


def unpack(blob: torch.Tensor) -> Message:
    """Return the message in a uint8 tensor; its tensors are views of it. Raises `WireError` when it is not valid."""
    view = _view(blob)
    try:
        (length,) = _HEADER.unpack(view[: _HEADER.size])
        if length > min(HEADER_LIMIT, len(view) - _HEADER.size):
            raise WireError(f"a header of {length} bytes")
        text = bytes(view[_HEADER.size : _HEADER.size + length]).decode()
        entries = _parsed(text)
        metadata = entries.pop("__metadata__")
        data = blob[_HEADER.size + length :]
        tensors = {str(name): _tensor(data, entry) for name, entry in entries.items()}
        facts = _printable(_parsed(metadata["facts"]))
        return Message(stripped(str(metadata["kind"])), facts, tensors)
    except WireError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RuntimeError, RecursionError) as error:
        raise WireError(f"{type(error).__name__}: {error}"[:200]) from None


def _parsed(text: str) -> dict[str, Any]:
    depth = deepest = 0
    for sign in _BRACKETS.findall(text):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > _MAX_DEPTH:
        raise WireError("JSON that is nested too deeply")
    value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    if not isinstance(value, dict):
        raise WireError("JSON that is not an object")
    return value


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> float:
    raise WireError(f"{text[:40]} where a finite number belongs")


def _printable(value: Any) -> Any:
    """Return a value whose texts have no half characters and nothing that a terminal interprets."""
    if isinstance(value, str):
        return stripped(value)
    if isinstance(value, dict):
        return {stripped(name): _printable(item) for name, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _tensor(data: torch.Tensor, entry: Mapping[str, Any]) -> torch.Tensor:
    dtype, shape, (start, stop) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if len(shape) > _MAX_DIMENSIONS or not all(isinstance(n, int) and 0 <= n < 2**40 for n in (*shape, start, stop)):
        raise WireError("a tensor with an impossible shape")
    count = 1
    for n in shape:
        count *= n
    if not 0 <= start <= stop <= len(data) or count * dtype.itemsize != stop - start:
        raise WireError("a tensor that reaches beyond its message")
    if dtype == torch.bool and bool((data[start:stop] > 1).any()):
        raise WireError("a byte that is neither true nor false")
    return data[start:stop].view(dtype).reshape(shape)


class Channel:
    """Both directions of a pipe; messages longer than `limit` bytes are refused.

    `wait(fd, writing)` is called while nothing can be read or written; it may raise. Without it, calls block.
    """

    def __init__(self, reading: int, writing: int, limit: int, wait: Callable[[int, bool], None] | None = None) -> None:
        self.reading, self.writing, self.limit, self._wait = reading, writing, limit, wait
        for fd in (reading, writing):
            os.set_blocking(fd, wait is None)

    def send(self, message: Message) -> None:
        """Write a message; raises `Closed` when nobody reads it."""
        waiting = pack(message)
        while waiting:
            try:
                sent = os.writev(self.writing, waiting)
            except BlockingIOError:
                self._pause(self.writing, True)
                continue
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None
            while waiting and sent >= len(waiting[0]):
                sent -= len(waiting.pop(0))
            if waiting:
                waiting[0] = waiting[0][sent:]

    def receive(self) -> Message:
        """Read a message; raises `Closed` or `WireError`."""
        prefix = bytearray(_PREFIX.size)
        self._fill(memoryview(prefix))
        magic, length = _PREFIX.unpack(prefix)
        if magic != MAGIC:
            raise WireError("bytes that are not a message")
        if length > self.limit:
            raise WireError(f"a message of {length} bytes; at most {self.limit} are allowed")
        blob = torch.empty(length, dtype=torch.uint8)
        self._fill(_view(blob))
        return unpack(blob)

    def _fill(self, buffer: memoryview) -> None:
        while len(buffer):
            try:
                got = os.readv(self.reading, [buffer])
            except BlockingIOError:
                self._pause(self.reading, False)
                continue
            except ConnectionResetError:
                raise Closed from None
            if not got:
                raise Closed
            buffer = buffer[got:]

    def _pause(self, fd: int, writing: bool) -> None:
        assert self._wait is not None
        self._wait(fd, writing)

    def close(self) -> None:
        """Close both ends."""
        for fd in {self.reading, self.writing}:
            os.close(fd)

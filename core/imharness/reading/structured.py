"""Reads TOML, JSON and JSON lines of bounded size, depth and members, with distinct keys and finite numbers."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from imharness.errors import UsageError
from imharness.reading.opening import MIB, printable, read_bytes, read_text
from imharness.reading.text import reason

DEPTH = 32
MEMBERS = 200_000
WORK = 5_000_000
"""The most squared dots, summed over the lines of TOML; the time for dotted keys grows with this sum."""


def read_toml(path: Path, limit: int = MIB) -> dict[str, Any]:
    """Return the content of a TOML file; raises a `UsageError` of one line."""
    text = read_text(path, limit)
    if sum(line.count(".") ** 2 for line in text.split("\n")) > WORK:
        raise UsageError(f"{printable(path)} has lines with too many dots.")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{printable(path)} is nested too deeply.") from None
    except ValueError as error:
        raise UsageError(f"{printable(path)} is not valid TOML: {reason(error)}") from None
    _check(document, printable(path))
    return document


def read_json(path: Path, limit: int = 64 * MIB) -> Any:
    """Return the content of a JSON file; raises a `UsageError` of one line."""
    return parsed_json(read_bytes(path, limit), printable(path))


def read_json_lines(path: Path, limit: int = 256 * MIB) -> Iterator[Any]:
    """Yield the values of a file with one JSON value on each line; only a line feed ends a line.

    Raises a `UsageError` that names the line.
    """
    content = read_bytes(path, limit)
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else (), 1):
        yield parsed_json(line, f"{printable(path)}, line {number}")


def parsed_json(content: bytes, where: str) -> Any:
    """Return a JSON value; raises a `UsageError` that begins with `where`."""
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refused)
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8: byte {error.start}.") from None
    except ValueError as error:
        raise UsageError(f"{where} is not valid JSON: {reason(error)}") from None
    _check(document, where)
    return document


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the key {name!r:.60} occurs twice")
        fields[name] = value
    return fields


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def _check(value: Any, where: str) -> None:
    """Raise `UsageError` unless depth and members are bounded, numbers finite and characters complete."""
    level, members = [value], 0
    for _ in range(DEPTH):
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                raise UsageError(f"{where} holds {item}, which is not a finite number.")
            if isinstance(item, int) and abs(item) >= 1 << 63:
                raise UsageError(f"{where} holds a whole number beyond 64 bits.")
            if isinstance(item, str) and not _is_whole(item):
                raise UsageError(f"{where} holds half a character.")
        level = [child for item in level for child in _children(item)]
        members += len(level)
        if members > MEMBERS:
            raise UsageError(f"{where} has more than {MEMBERS} members.")
        if not level:
            return
    raise UsageError(f"{where} is nested more than {DEPTH} levels deep.")


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a value of JSON or TOML, including the names of members."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        waiting += _children(item)


def _children(item: Any) -> list[Any]:
    if isinstance(item, Mapping):
        return [*item, *item.values()]
    return list(item) if isinstance(item, list | tuple) else []


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)

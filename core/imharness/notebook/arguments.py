"""Checks single arguments: a value that does not fit raises a `UsageError` of one line that names the argument.

Imports no torch.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np

from imharness.cli.options import LARGEST_SEED
from imharness.errors import UsageError
from imharness.reading.text import plain

SHOWN = 60
"""The number of characters of a wrong value that a message shows."""


def short(value: object) -> str:
    """Return a value as one short line."""
    try:
        return plain(repr(value))[:SHOWN]
    except Exception:  # the repr of a value that somebody gave may raise anything
        return f"a {type(value).__name__}"


def wrong(argument: str, expected: str, value: object) -> UsageError:
    """Return the error for a value that does not fit."""
    return UsageError(f"{argument}: expected {expected}, got {short(value)}.")


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Put the name of an argument before the message of a `UsageError`, unless it begins with the name."""
    try:
        yield
    except UsageError as error:
        if str(error).startswith(f"{argument}:"):
            raise
        raise UsageError(f"{argument}: {error}") from None


def text(argument: str, value: Any, expected: str = "text") -> str:
    """Return `value` if it is a text."""
    if not isinstance(value, str):
        raise wrong(argument, expected, value)
    return value


def flag(argument: str, value: Any) -> bool:
    """Return True or False, also of numpy, as Python's type."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(argument, "True or False", value)
    return bool(value)


def whole(argument: str, value: Any) -> int:
    """Return a whole number, also of numpy, as Python's type."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong(argument, "a whole number", value) from None


def seed_of(value: Any) -> int:
    """Return a seed such as `harness run --seed` takes."""
    number = whole("seed", value)
    if not 0 <= number <= LARGEST_SEED:
        raise wrong("seed", "a whole number from 0 to 2^63 - 1", value)
    return number


def real(argument: str, value: Any, expected: str = "a number") -> float:
    """Return a number, also of numpy, as Python's type."""
    try:
        if isinstance(value, Real):
            return float(value)
    except OverflowError:
        pass
    raise wrong(argument, expected, value)


def one_of(argument: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of the known words."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{argument}: {short(value)} is none of {', '.join(choices)}.")
    return value


def listed(argument: str, value: Any, expected: str) -> list[Any]:
    """Return the items of a list, a tuple, a set or another iterable that is neither a text nor a mapping."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(argument, expected, value)
    return list(value)


def address_of(argument: str, value: Any, expected: str) -> str:
    """Return a path or an address as text."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str):
        raise wrong(argument, expected, value)
    return path

"""Labels of components, ``owner/method[field=value]``: made here, and taken apart here.

A *name* is what a person writes for components: a label, an id, a method without its owner, ``id[*]``, or
``method:address``.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imharness.errors import UsageError

ID = r"[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9._-]*"
"""The regular expression of an id: ``owner/method``."""
LABEL = re.compile(rf"{ID}(?:\[[^\[\]]*\])?")
"""An id with the settings that it may have, inside any text."""
_NAME = re.compile(r"^(?P<id>[^\[\]:]+)(\[(?P<settings>.*)\]|:(?P<address>(?s:.+)))?$")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COMMA = re.compile(r",(?![^(\[]*[)\]])")
"""A comma that is not inside brackets."""
KEPT = 4096
"""Labels whose parts are remembered."""


def label_of(id: str, parameters: Mapping[str, Any]) -> str:
    """Return ``owner/method[a=1,b=2]``; `parameters` holds the non-default ones only."""
    return with_settings(id, [_setting(name, value) for name, value in parameters.items()])


def label_with(label: str, **further: object) -> str:
    """Return a label with further settings behind those that it has."""
    added = [_setting(name, value) for name, value in further.items()]
    return with_settings(id_of(label), [*settings_in(label), *added])


def with_settings(id: str, settings: Sequence[str]) -> str:
    """Return an id with settings such as ``size=64`` in brackets, and without brackets where there are none."""
    return f"{id}[{','.join(settings)}]" if settings else id


def _setting(name: str, value: object) -> str:
    return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"


def id_of(name: str) -> str:
    """Return what stands before the settings or the address: an id, or a method without its owner."""
    return name.partition("[")[0].partition(":")[0]


def method_of(id: str) -> str:
    """Return an id without its owner."""
    return id.partition("/")[2]


def settings_in(label: str) -> list[str]:
    """Return the settings in brackets in their order, such as ``size=64``; also of several labels in one text."""
    return [part.strip() for found in _BRACKETS.findall(label) for part in _COMMA.split(found) if part.strip()]


@functools.lru_cache(maxsize=KEPT)
def settings_of(label: str) -> frozenset[str]:
    """Return the settings in brackets, whatever their order."""
    return frozenset(settings_in(label))


@functools.lru_cache(maxsize=KEPT)
def without_settings(label: str) -> str:
    """Return a label, or a text with labels, without the settings in brackets."""
    while (found := _BRACKETS.sub("", label)) != label:
        label = found
    return label


@dataclass(frozen=True)
class Name:
    """A name in its parts. `id` may lack its owner; `settings` is the text in brackets, None where there are none."""

    id: str
    settings: str | None
    address: str | None


def read_name(name: str) -> Name | None:
    """Return the parts of a name, None where it cannot be one."""
    match = _NAME.match(name)
    return Name(match["id"], match["settings"], match["address"]) if match else None


def read_settings(text: str, of: str) -> dict[str, Any]:
    """Return the settings that stand in the brackets of a name: Python's literals as values, else text.

    Raises `UsageError` where one has no ``=``; `of`: the id, for the message.
    """
    found: dict[str, Any] = {}
    for part in filter(None, _COMMA.split(text)):
        field, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"cannot read parameter {part!r}; write {of}[field=value]")
        try:
            found[field.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[field.strip()] = value.strip()
    return found

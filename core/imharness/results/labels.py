"""Makes labels of components, ``owner/method[field=value]``, and splits them into parts.

A *name* is what a person writes to mean components: a label, an id, a method without its owner, ``id[*]``, or
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
"""The regular expression of an id, ``owner/method``."""
LABEL = re.compile(rf"{ID}(?:\[[^\[\]]*\])?")
"""Finds an id, with its settings if it has some, inside any text."""
_NAME = re.compile(r"^(?P<id>[^\[\]:]+)(\[(?P<settings>.*?)\])?(:(?P<address>(?s:.+)))?$")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COMMA = re.compile(r",(?![^(\[]*[)\]])")
"""Finds a comma that is not inside brackets."""
KEPT = 4096
"""The number of labels whose parts are cached."""


def label_of(id: str, parameters: Mapping[str, Any]) -> str:
    """Return ``owner/method[a=1,b=2]``; `parameters` are those that differ from their defaults."""
    return with_settings(id, [_setting(name, value) for name, value in parameters.items()])


def label_with(label: str, **further: object) -> str:
    """Return a label with further settings after those that it has, or a name with them before its address."""
    read = read_name(label)
    address = f":{read.address}" if read and read.address else ""
    added = [_setting(name, value) for name, value in further.items()]
    return with_settings(id_of(label), [*settings_in(label.removesuffix(address)), *added]) + address


def with_settings(id: str, settings: Sequence[str]) -> str:
    """Return an id with settings such as ``size=64`` in brackets, or without brackets if there are none."""
    return f"{id}[{','.join(settings)}]" if settings else id


def _setting(name: str, value: object) -> str:
    return f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"


def printed(text: str) -> str:
    """Return a label, or a text with labels, as papers print it: without the owner of first-party components."""
    return text.replace("harness/", "")


def components_in(label: str) -> list[str]:
    """Return the labels of the components that an entry is made of, as in ``harness/lenet + harness/ats``."""
    return label.split(" + ")


def id_of(name: str) -> str:
    """Return the part before the settings or the address: an id, or a method without its owner."""
    return name.partition("[")[0].partition(":")[0]


def method_of(id: str) -> str:
    """Return an id without its owner."""
    return id.partition("/")[2]


def settings_in(label: str) -> list[str]:
    """Return the settings in brackets, such as ``size=64``, in their order; the text may hold several labels."""
    return [
        setting.strip() for bracket in _BRACKETS.findall(label) for setting in _COMMA.split(bracket) if setting.strip()
    ]


@functools.lru_cache(maxsize=KEPT)
def settings_of(label: str) -> frozenset[str]:
    """Return the settings in brackets, whatever their order."""
    return frozenset(settings_in(label))


@functools.lru_cache(maxsize=KEPT)
def without_settings(label: str) -> str:
    """Return a label, or a text with labels, without the settings in brackets."""
    while (shortened := _BRACKETS.sub("", label)) != label:
        label = shortened
    return label


@dataclass(frozen=True)
class Name:
    """The parts of a name. `id` may lack its owner; `settings` is the text in brackets, or None without brackets."""

    id: str
    settings: str | None
    address: str | None


def read_name(name: str) -> Name | None:
    """Return the parts of a name, or None if the text cannot be one."""
    match = _NAME.match(name)
    return Name(match["id"], match["settings"], match["address"]) if match else None


def read_settings(text: str, of: str) -> dict[str, Any]:
    """Return the settings in the brackets of a name by field; values are Python literals or else text.

    Raises `UsageError` for a setting without ``=``; `of` is the id, for the message.
    """
    settings: dict[str, Any] = {}
    for setting in filter(None, _COMMA.split(text)):
        field, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"cannot read parameter {setting!r}; write {of}[field=value]")
        try:
            settings[field.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            settings[field.strip()] = value.strip()
    return settings

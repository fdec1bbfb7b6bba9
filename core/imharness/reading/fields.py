"""Says in one line what is wrong with the fields that a user gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from imharness.errors import unknown_name


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return a pydantic error as one line: the field, what is wrong, what came, and known fields if it is unknown.

    `model` is the model that was validated, so that its fields can be listed.
    """
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'value'}: {_said(item, model)} (got {item.get('input')!r:.60})"
        for item in error.errors(include_url=False)
    )


def _said(item: Any, model: type[BaseModel] | None) -> str:
    if item["type"] != "extra_forbidden" or model is None:
        return str(item["msg"]).removeprefix("Value error, ")
    fields = _fields_at(model, item["loc"][:-1])
    return unknown_name("no such field", str(item["loc"][-1]), fields, "Fields").rstrip(".")


def _fields_at(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """Return the fields of the model at a place inside another; keys and positions lead to what they hold."""
    found: Any = model
    for part in place:
        inner = [own.model_fields[str(part)].annotation for own in _models(found) if str(part) in own.model_fields]
        found = inner[0] if inner else found
    return next((list(own.model_fields) for own in _models(found)), [])


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)

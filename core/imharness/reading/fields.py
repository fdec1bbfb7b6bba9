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
        f"{'.'.join(map(str, item['loc'])) or 'value'}: {_message(item, model)} (got {item.get('input')!r:.60})"
        for item in error.errors(include_url=False)
    )


def _message(item: Any, model: type[BaseModel] | None) -> str:
    if item["type"] != "extra_forbidden" or model is None:
        return str(item["msg"]).removeprefix("Value error, ")
    fields = _fields_at(model, item["loc"][:-1])
    return unknown_name("no such field", str(item["loc"][-1]), fields, "Fields").rstrip(".")


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the fields of the model at a place inside another; keys and positions lead to what they hold."""
    current: Any = model
    for key in path:
        inner = [
            candidate.model_fields[str(key)].annotation
            for candidate in _models(current)
            if str(key) in candidate.model_fields
        ]
        current = inner[0] if inner else current
    return next((list(candidate.model_fields) for candidate in _models(current)), [])


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)

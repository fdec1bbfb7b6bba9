"""What a plugin's components are, as JSON: enough for the outside to plan with them without importing them."""

from __future__ import annotations

import inspect
from typing import Any

from imharness.components.papers import paper_of
from imharness.contracts.attack import BaseAttack
from imharness.contracts.component import Component
from imharness.contracts.purification import Purification
from imharness.testing.contracts import contract_of


def described(component: Component) -> dict[str, Any]:
    """Return kind, contract, facts and fields of a component."""
    cls = type(component)
    return {
        "contract": contract_of(cls).__name__,
        "class": cls.__name__,
        "documentation": inspect.cleandoc(vars(cls).get("__doc__") or "")[:4000],
        "info": component.info.model_copy(update={"paper": paper_of(component)}).model_dump(mode="json"),
        "schema": cls.model_json_schema().get("properties", {}) if cls.model_fields else {},
        "parameters": component.model_dump(mode="json"),
        "defaults": {
            name: default
            for name, default in _defaults(cls).items()
            if default is None or isinstance(default, bool | int | float | str | list)
        },
        "inverse": isinstance(component, Purification) and type(component).inverse is not Purification.inverse,
        "declares": {name: _words(getattr(component, name)) for name in component.declares},
    }


def _words(declared: tuple[str, ...] | frozenset[str]) -> list[str]:
    return list(declared) if isinstance(declared, tuple) else sorted(declared)


def _defaults(cls: type[Component]) -> dict[str, Any]:
    defaults = {n: f.get_default(call_default_factory=True) for n, f in cls.model_fields.items() if not f.is_required()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}


def derived(component: Component) -> dict[str, Any]:
    """Return what follows from parameters by the component's own code."""
    facts: dict[str, Any] = {"label": component.label, "parameters": component.model_dump(mode="json")}
    if isinstance(component, BaseAttack):
        facts["budget"] = component.budget().model_dump(mode="json")
    return facts

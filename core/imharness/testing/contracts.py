"""Finds all contracts, for tools that must know them all."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import imharness.contracts
from imharness.contracts.call import Call
from imharness.contracts.component import Component


def contract_of(component: type[Component]) -> type[Component]:
    """Return the contract of a component's class: the nearest base class that sets `call` or `kind`."""
    return next(cls for cls in component.__mro__ if _is_contract(cls) or "kind" in vars(cls))


def contracts() -> dict[str, type[Component]]:
    """Return name of the class -> contract, including the contracts of packages that are loaded."""
    for module in pkgutil.iter_modules(imharness.contracts.__path__, "imharness.contracts."):
        importlib.import_module(module.name)
    return {cls.__name__: cls for cls in _below(Component) if _is_contract(cls)}


def _is_contract(cls: type) -> bool:
    return isinstance(vars(cls).get("call"), Call)


def _below(cls: type[Component]) -> Iterator[type[Component]]:
    for below in cls.__subclasses__():
        yield below
        yield from _below(below)

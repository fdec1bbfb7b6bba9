"""How a component's function is called, said once: what is checked, carried, tried and written anew follows from it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

import imharness.contracts
from imharness.components.component import Component
from imharness.contracts.values import Randomness, Tensors, ValueKind, joined, within


class Call:
    """The arguments of a contract's function by name, in their order, and what it returns.

    `by_row`: row i of the result depends on row i of the arguments alone. `own_gradients`: the function may take
    gradients for its own use. `direct`: the method is the function itself, where others return the function.
    """

    def __init__(
        self, *, returns: ValueKind, by_row: bool = False, own_gradients: bool = False, direct: bool = False,
        **arguments: ValueKind,
    ) -> None:  # fmt: skip
        self.arguments, self.returns = arguments, returns
        self.by_row, self.own_gradients, self.direct = by_row, own_gradients, direct

    @property
    def drawable(self) -> bool:
        """Whether the conformance suite can draw all arguments."""
        return all(kind.drawable for kind in self.arguments.values())

    def given(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return arguments by name."""
        return dict(zip(self.arguments, arguments, strict=True))

    def rows(self, given: Mapping[str, Any]) -> int:
        """Return how many rows the arguments have; 1 when none of them has rows."""
        return next((kind.count(given[name]) for name, kind in self.arguments.items() if kind.rows), 1)

    def checked(self, component: Component, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results checked; without gradients, unless they are its own."""

        def call(*arguments: Any) -> Any:
            with torch.set_grad_enabled(self.own_gradients):
                result = function(*arguments)
            with torch.no_grad():
                return self.check(component, result, self.given(arguments))

        return call

    def check(self, component: Component, result: Any, given: Mapping[str, Any]) -> Any:
        """Return a result as others may use it; raises `ContractError`."""
        return self.returns.check(result, given, self.rows(given), component.label)

    def tensors(self, given: Mapping[str, Any], names: Mapping[str, ValueKind]) -> Tensors:
        """Return some arguments as tensors by name."""
        return joined({name: kind.tensors(given[name]) for name, kind in names.items()})

    def randomness(self) -> dict[str, Randomness]:
        """Return the arguments to draw from."""
        return {name: kind for name, kind in self.arguments.items() if isinstance(kind, Randomness)}

    def restored(self, tensors: Tensors, names: Mapping[str, ValueKind], device: torch.device) -> dict[str, Any]:
        """Return the arguments that `tensors` took apart."""
        return {name: kind.restored(within(tensors, name), device) for name, kind in names.items()}

    def signature(self, name: str, indent: int = 8, width: int = 120) -> str:
        """Return the first line of a definition of the function, on several lines where one is too short."""
        listed = ["self"] * self.direct + [f"{n}: {kind.annotation}" for n, kind in self.arguments.items()]
        line = f"def {name}({', '.join(listed)}) -> {self.returns.annotation}:"
        if indent + len(line) <= width:
            return line
        space = " " * indent
        inner = ", ".join(listed)
        if indent + 4 + len(inner) > width:
            inner = f",\n{space}    ".join(listed) + ","
        return f"def {name}(\n{space}    {inner}\n{space}) -> {self.returns.annotation}:"


class Data(Call):
    """A contract whose `build` returns data, not a function."""

    def __init__(self, returns: ValueKind) -> None:
        super().__init__(returns=returns)

    def checked(self, component: Component, function: Any) -> Any:
        """Return the data, checked."""
        return self.check(component, function, {})


def call_of(component: type[Component], method: str = "build") -> Call:
    """Return how what a method gives is called: `call` for `build`, ``<method>_call`` for another."""
    found: Call = getattr(component, "call" if method == "build" else f"{method}_call")
    return found


def checked(component: Component, built: Any, method: str = "build") -> Any:
    """Return what a method of a component gave, its results checked against its contract."""
    return built if built is None else call_of(type(component), method).checked(component, built)


def contract_of(component: type[Component]) -> type[Component]:
    """Return the contract of a component's class: the nearest class that says how it is called, or what kind it is."""
    return next(cls for cls in component.__mro__ if _is_contract(cls) or "kind" in vars(cls))


def contracts() -> dict[str, type[Component]]:
    """Return every contract, those of packages that are loaded too, by the name of its class."""
    for module in pkgutil.iter_modules(imharness.contracts.__path__, "imharness.contracts."):
        importlib.import_module(module.name)
    return {cls.__name__: cls for cls in _below(Component) if _is_contract(cls)}


def _is_contract(cls: type) -> bool:
    return isinstance(vars(cls).get("call"), Call)


def _below(cls: type[Component]) -> Iterator[type[Component]]:
    for below in cls.__subclasses__():
        yield below
        yield from _below(below)

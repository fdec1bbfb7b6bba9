"""How a component's function is called, stated once for each contract.

Everything else follows from a `Call`: how a result is checked, what crosses into the sandbox, what the conformance
suite tries, and the signature that `harness plugins new` writes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch

from imharness.contracts.component import Component
from imharness.contracts.values import ValueKind

B = TypeVar("B")


class Builds(ABC, Generic[B]):
    """A component whose `build` returns something of the type ``B``: a function, or data."""

    @abstractmethod
    def build(self, device: torch.device) -> B:
        """Return the component as a callable, or the data that it stands for."""


class Call:
    """The arguments of a contract's function by name, in their order, and what it returns.

    Args:
        returns: the kind of the result.
        by_row: whether row i of the result depends only on row i of the arguments, whatever else is in the batch.
        own_gradients: whether the function computes gradients itself; otherwise it runs under ``torch.no_grad``.
        direct: whether the component's method is itself the function that takes these arguments, as `fit` is. Otherwise
            the method takes a device and returns the function, as `build` does.
        arguments: name -> kind of value, in the order of the call.
    """

    def __init__(
        self,
        *,
        returns: ValueKind,
        by_row: bool = False,
        own_gradients: bool = False,
        direct: bool = False,
        **arguments: ValueKind,
    ) -> None:
        self.arguments, self.returns = arguments, returns
        self.by_row, self.own_gradients, self.direct = by_row, own_gradients, direct

    def named_arguments(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Return the arguments by name."""
        return dict(zip(self.arguments, arguments, strict=True))

    def rows(self, arguments: Mapping[str, Any]) -> int:
        """Return how many rows the arguments have, or 1 if none of them has rows."""
        return next((kind.count(arguments[name]) for name, kind in self.arguments.items() if kind.rows), 1)

    def checked(self, component: Component, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results checked; it runs without gradients unless it takes them itself."""

        def call(*arguments: Any) -> Any:
            with torch.set_grad_enabled(self.own_gradients):
                result = function(*arguments)
            with torch.no_grad():
                return self.check(component, result, self.named_arguments(arguments))

        return call

    def check(self, component: Component, result: Any, arguments: Mapping[str, Any]) -> Any:
        """Return a checked result; raises `ContractError` if it breaks the contract."""
        return self.returns.check(result, arguments, self.rows(arguments), component.label)


class Data(Call):
    """A contract whose `build` returns data, not a function."""

    def checked(self, component: Component, function: Any) -> Any:
        """Return the data, checked."""
        return self.check(component, function, {})


def call_of(component: type[Component], method: str = "build") -> Call:
    """Return the `Call` of the function that a method returns: `call` for `build`, ``<method>_call`` for another."""
    call: Call = getattr(component, "call" if method == "build" else f"{method}_call")
    return call


def checked(component: Component, built: Any, method: str = "build") -> Any:
    """Return the function or data that a method of a component gave, checked against its contract."""
    return built if built is None else call_of(type(component), method).checked(component, built)

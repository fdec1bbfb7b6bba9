"""What the conformance suite knows of a contract: what goes in, what must come out, its own checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from imharness.errors import ContractError
from imharness_conformance import samples

CPU = torch.device("cpu")
Inputs = Sequence[torch.Tensor]
OwnCheck = tuple[str, Callable[[], str | None]]
CLASSES = 4
AGREEMENT, RATIO = 0.5, 10.0
"""A gradient is honest when its slopes and those of finite differences have this cosine, and a ratio within."""


class Probe(ABC):
    """Calls built components of one contract. All inputs are tensors with a row per unit."""

    by_row: ClassVar[bool] = True
    """Row i of the result depends on row i of the inputs alone."""
    tolerance: ClassVar[float] = 1e-4

    def __init__(self, component: Any, seed: int) -> None:
        self.component, self.seed = component, seed

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        """Return the built component."""
        return component.build(device)

    def sizes(self) -> list[tuple[int, ...]]:
        """Return the shapes to try, (rows, height, width); the first is the usual one."""
        return [(3, 96, 96), (1, 75, 61), (16, 96, 96)]

    def seeds(self, n: int) -> list[int]:
        """Return one seed per row."""
        return [self.seed * 1000 + i for i in range(n)]

    def inputs(self, n: int, height: int = 96, width: int = 96) -> Inputs:
        """Return fresh inputs."""
        return [samples.images(n, height, width, self.seed + n)]

    @abstractmethod
    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        """Return the result as one tensor."""

    @abstractmethod
    def check(self, result: torch.Tensor, n: int) -> None:
        """Raise `ContractError` unless the result is what the contract says."""

    def own_checks(self) -> Iterator[OwnCheck]:
        """Yield the checks of this contract alone."""
        yield from ()


def check_gradient(function: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor, declared: bool) -> str:
    """Compare the gradient with finite differences along three directions; raise `ContractError` when they disagree."""
    leaf = (0.1 + 0.8 * batch).requires_grad_(True)
    value = function(leaf)
    found = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
    moving = found is not None and bool((found != 0).any())
    if not declared:
        if moving:
            return "a gradient flows although info says it is not differentiable: adaptive attacks do not use it"
        return "no gradient, as declared"
    if found is None or not moving:
        raise ContractError("info says differentiable, and no gradient reaches the images")
    if not bool(torch.isfinite(found).all()):
        raise ContractError("the gradient is NaN or infinite")
    smooth = samples.images(len(batch), batch.shape[2], batch.shape[3], 7) - 0.5
    directions = [torch.ones_like(batch), smooth, found / found.abs().max()]
    measured, promised = [], []
    with torch.no_grad():
        for v in directions:
            slope = float((found * v).sum())
            step = min(max(0.02 * (abs(float(value)) + 0.1) / max(abs(slope), 1e-6), 1e-4), 0.02)
            measured.append(float(function(leaf + step * v) - function(leaf - step * v)) / (2 * step))
            promised.append(slope)
    first, second = torch.tensor(measured), torch.tensor(promised)
    agreement = float(F.cosine_similarity(first, second, dim=0))
    ratio = float(second.norm() / first.norm().clamp(min=1e-12))
    if agreement < AGREEMENT or not 1 / RATIO < ratio < RATIO:
        raise ContractError(
            f"the gradient says {_few(promised)} along three directions and finite differences {_few(measured)}; "
            "a gradient that is not the function's own misleads attacks: declare differentiable=False"
        )
    return f"slopes along three directions: {_few(promised)}, by finite differences {_few(measured)}"


def _few(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in numbers)


def silent(done: int, total: int) -> None:
    """Show no progress."""

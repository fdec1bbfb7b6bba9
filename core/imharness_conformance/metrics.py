"""How metrics are called and what they must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from imharness.contracts.metric import DistributionMetric, FullReferenceMetric, NoReferenceMetric
from imharness.errors import ContractError
from imharness.randomness import generator
from imharness.running.checks import check_scores
from imharness_conformance import samples
from imharness_conformance.probe import CPU, Inputs, OwnCheck, Probe, check_gradient


class NoReferenceProbe(Probe):
    component: NoReferenceMetric

    def sizes(self) -> list[tuple[int, ...]]:
        return [(3, 96, 96), (1, 117, 99), (16, 96, 96)]

    def inputs(self, n: int, height: int = 96, width: int = 96) -> Inputs:
        return super().inputs(n, height, width)

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        result: torch.Tensor = built(inputs[0])
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        check_scores(result, n, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "declares the bounds of its scores", self._bounds
        yield "is differentiable if it says so", self._differentiable

    def _bounds(self) -> str:
        lower, upper = self.component.bounds
        return f"{lower:g} to {upper:g}"

    def _differentiable(self) -> str:
        if not self.component.info.differentiable:
            return "not differentiable, as declared"
        built, (batch,) = self.build(self.component), self.inputs(2)
        return check_gradient(lambda x: built(x).sum(), batch, declared=True)


class FullReferenceProbe(Probe):
    component: FullReferenceMetric

    def sizes(self) -> list[tuple[int, ...]]:
        return [(3, 176, 176), (1, 185, 179), (16, 176, 176)]

    def inputs(self, n: int, height: int = 176, width: int = 176) -> Inputs:
        (clean,) = super().inputs(n, height, width)
        noise = torch.randn(clean.shape, generator=generator(self.seed + 1))
        return [(clean + 0.15 * noise).clamp(0, 1), clean]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        with torch.no_grad():
            result: torch.Tensor = built(inputs[0], inputs[1])
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        check_scores(result, n, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "finds the identical image nearer than a noisy one", self._prefers_identical

    def _prefers_identical(self) -> None:
        built, (noisy, clean) = self.build(self.component), self.inputs(3)
        sign = self.component.closeness
        if not bool((sign * built(clean, clean) > sign * built(noisy, clean)).all()):
            raise ContractError(
                f"higher_means={self.component.info.higher_means!r} does not fit: a noisy copy is nearer"
            )


class DistributionProbe(Probe):
    component: DistributionMetric
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(12, 64, 64)]

    def inputs(self, n: int, height: int = 64, width: int = 64) -> Inputs:
        return [samples.images(n, height, width, self.seed + i) for i in (1, 2)]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        with torch.no_grad():
            return torch.tensor([float(built(inputs[0], inputs[1]))])

    def check(self, result: torch.Tensor, n: int) -> None:
        check_scores(result, 1, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "does not depend on the order of images", self._order

    def _order(self) -> None:
        built, (first, second) = self.build(self.component), self.inputs(12)
        a, b = (self.call(built, [x, second], []) for x in (first, first.flip(0)))
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-3):
            raise ContractError(f"{float(a):.6g} became {float(b):.6g} when the images were reversed")

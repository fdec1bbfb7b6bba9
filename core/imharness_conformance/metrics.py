"""What is special about metrics: bounds, gradients, and that a higher score means what it says."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from imharness.contracts.distribution_metric import DistributionMetric
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.errors import ContractError
from imharness.randomness import generator
from imharness_conformance import samples
from imharness_conformance.probe import Inputs, OwnCheck, Probe, check_gradient


class NoReferenceProbe(Probe):
    component: NoReferenceMetric

    sizes = ((3, 96, 96), (1, 117, 99), (16, 96, 96))

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "declares the bounds of its scores", self._bounds
        yield "is differentiable if it says so", self._differentiable

    def _bounds(self) -> str:
        lower, upper = self.component.bounds
        return f"{lower:g} to {upper:g}"

    def _differentiable(self) -> str:
        if not self.component.info.differentiable:
            return "not differentiable, as declared"
        built, batch = self.build(self.component), self.inputs(2)["images"]
        return check_gradient(lambda x: built(x).sum(), batch, declared=True)


class FullReferenceProbe(Probe):
    component: FullReferenceMetric

    sizes = ((3, 176, 176), (1, 185, 179), (16, 176, 176))

    def inputs(self, n: int, height: int = 176, width: int = 176) -> Inputs:
        clean = samples.images(n, height, width, self.seed + n)
        noise = torch.randn(clean.shape, generator=generator(self.seed + 1))
        return {"images": (clean + 0.15 * noise).clamp(0, 1), "reference": clean}

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "finds the identical image nearer than a noisy one", self._prefers_identical
        yield "is differentiable if it says so", self._differentiable

    def _prefers_identical(self) -> None:
        built, (noisy, clean) = self.build(self.component), self.inputs(3, 176, 176).values()
        sign = self.component.closeness
        if not bool((sign * built(clean, clean) > sign * built(noisy, clean)).all()):
            raise ContractError(
                f"higher_means={self.component.info.higher_means!r} does not fit: a noisy copy is nearer"
            )


    def _differentiable(self) -> str:
        if not self.component.info.differentiable:
            return "not differentiable, as declared"
        built, (noisy, clean) = self.build(self.component), self.inputs(2).values()
        return check_gradient(lambda x: built(x, clean).sum(), noisy, declared=True)


class DistributionProbe(Probe):
    component: DistributionMetric
    sizes = ((12, 64, 64),)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "does not depend on the order of images", self._order

    def _order(self) -> None:
        built, inputs = self.build(self.component), self.inputs(12, 64, 64)
        turned = {**inputs, "images": inputs["images"].flip(0)}
        a, b = (self.tensor(built, given, []) for given in (inputs, turned))
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-3):
            raise ContractError(f"{float(a):.6g} became {float(b):.6g} when the images were reversed")

"""The checks of metrics: bounds, gradients, and whether a higher score means what the metric declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from imharness.contracts.distribution_metric import DistributionMetric
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.randomness import ImageRng, generator
from imharness.contracts.values import Images, Scores
from imharness.errors import ContractError
from imharness.running.projections import follow_scores
from imharness.running.target import storable
from imharness.testing import samples
from imharness.testing.probe import Inputs, OwnCheck, Probe, check_gradient
from imharness.testing.usual import usual, usual_inputs

STEP = 4 / 255
"""The step of the attack on a distance, on images in [0, 1]."""
FOLLOWED = 4
"""The images whose gradient is compared with queries."""
TOGETHER = 16
"""How many images are in a call with queries: a network takes little longer for a few small ones than for one."""


class NoReferenceProbe(Probe):
    component: NoReferenceMetric
    attacked = True

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
        built, batch = self.built, self.inputs(2)["images"]
        message = check_gradient(lambda x: built(x).sum(), batch, declared=True)
        return f"{message}; {_followed(built, self.inputs(FOLLOWED)['images'], self.seeds(FOLLOWED))}"


class FullReferenceProbe(Probe):
    component: FullReferenceMetric
    attacked = True

    sizes = ((3, 176, 176), (1, 185, 179), (16, 176, 176))

    def inputs(self, n: int, height: int = 176, width: int = 176) -> Inputs:
        clean = samples.images(n, height, width, self.seed + n)
        noise = torch.randn(clean.shape, generator=generator(self.seed + 1))
        return {"images": storable(clean + 0.15 * noise), "reference": clean}

    def bare(self) -> Mapping[str, Inputs]:
        """Compare each image that shows little with itself and, both ways, with a usual one."""
        usual, bare_inputs = self.inputs(1, *self.sizes[0][1:])["reference"], super().bare()
        return {
            what: {
                "images": torch.cat([inputs["images"], inputs["images"], usual]),
                "reference": torch.cat([inputs["images"], usual, inputs["images"]]),
            }
            for what, inputs in bare_inputs.items()
        }

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "finds the identical image nearer than a noisy one", self._prefers_identical
        yield "has a gradient that attacks can follow, if it says so", self._moved

    def _prefers_identical(self) -> None:
        built, (noisy, clean) = self.built, self.inputs(3, 176, 176).values()
        sign = self.component.closeness
        if not bool((sign * built(clean, clean) > sign * built(noisy, clean)).all()):
            raise ContractError(
                f"higher_means={self.component.info.higher_means!r} does not fit: a noisy copy is nearer"
            )

    def _moved(self) -> str:
        """Compare an attack's step along the signs of the gradient with one straight away from the reference."""
        if not self.component.info.differentiable:
            return "not differentiable, as declared"
        built, farther = self.built, -self.component.closeness
        noisy, clean = (0.1 + 0.8 * x for x in self.inputs(2).values())
        leaf = noisy.clone().requires_grad_(True)
        value = farther * built(leaf, clean).sum()
        gradient = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
        if gradient is None:
            raise ContractError("info says differentiable, but no gradient reaches the images")
        with torch.no_grad():
            along, away = (
                float(farther * built(noisy + STEP * direction.sign(), clean).sum() - value)
                for direction in (gradient, noisy - clean)
            )
        message = f"a step along it moves scores by {along:.3g}, one straight away from the reference by {away:.3g}"
        if not along >= away / 2:
            raise ContractError(
                f"the gradient is not the function's own and misleads attacks: {message}; declare differentiable=False"
            )
        images, reference = self.inputs(FOLLOWED).values()

        def score(images: Images) -> Scores:
            scores: Scores = built(images, reference.repeat(len(images) // len(reference), 1, 1, 1))
            return scores

        return f"{message}; {_followed(score, images, self.seeds(FOLLOWED))}"


def _followed(score: Callable[[Images], Scores], images: Images, seeds: Sequence[int]) -> str:
    """Compare slopes at random projections with queries; raise `ContractError` where they are not the gradient's."""
    followed = follow_scores(score, images, ImageRng(seeds), together=max(1, TOGETHER // len(images)))
    cosine = float(followed.cosine.nanmean())
    if float(followed.misled.mean()) > 0:
        raise ContractError(
            f"the gradient is not the function's own and misleads attacks: along random changes of one level of 8 bits "
            f"its slopes and those found by queries have a cosine of {cosine:.2f}; declare differentiable=False"
        )
    return f"cosine with queries {cosine:.2f}"


class DistributionProbe(Probe):
    component: DistributionMetric
    sizes = ((12, 64, 64),)

    def bare(self) -> Mapping[str, Inputs]:
        usual, bare_images = usual_inputs(self)[0], [inputs["images"] for inputs in super().bare().values()]
        return {
            "a set of images that show little": {**usual, "images": torch.cat(bare_images)},
            "one black image many times": {**usual, "images": torch.zeros_like(usual["images"])},
        }

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "does not depend on the order of images", self._order

    def _order(self) -> None:
        first = usual(self)
        turned = {**first.inputs, "images": first.inputs["images"].flip(0)}
        a, b = first.flat, self.tensor(self.built, turned, first.seeds)
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-3):
            raise ContractError(f"{float(a):.6g} became {float(b):.6g} when the images were reversed")

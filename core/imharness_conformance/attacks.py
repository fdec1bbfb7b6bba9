"""How attacks and the defenses of a metric are called and what they must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from imharness.contracts.attack import BaseAttack, FittedAttack
from imharness.contracts.defense import Certification, Purification
from imharness.errors import ContractError
from imharness.randomness import ImageRng, generator
from imharness.running.checks import check_budget, check_images
from imharness.running.target import MetricTarget
from imharness_conformance import samples
from imharness_conformance.probe import CPU, Inputs, OwnCheck, Probe, check_gradient, silent

SCORE_TOLERANCE = 0.05
"""Of scores in (0, 1), for an attack alone and in a batch."""


class PurificationProbe(Probe):
    component: Purification

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        result: torch.Tensor = built(inputs[0], ImageRng(seeds, device))
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        check_images(result, n, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "is random if and only if it says so", self._random
        yield "is differentiable if and only if it says so", self._differentiable

    def _random(self) -> None:
        built, inputs = self.build(self.component), self.inputs(2, 300, 280)
        same = torch.equal(self.call(built, inputs, [1, 2]), self.call(built, inputs, [4, 5]))
        if same == self.component.info.random:
            says = "random" if self.component.info.random else "not random"
            raise ContractError(f"info says {says}, and other seeds give {'the same' if same else 'another'} result")

    def _differentiable(self) -> str:
        built, (batch,) = self.build(self.component), self.inputs(2)
        seeds = [1, 2]
        return check_gradient(lambda x: self.call(built, [x], seeds).mean(), batch, self.component.info.differentiable)


class AttackProbe(Probe):
    """Attacks a small network; a budget of queries holds per image, and a black-box attack gets no gradient."""

    component: BaseAttack
    by_row = False

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        if isinstance(component, FittedAttack):
            batch = samples.images(8, 64, 64, self.seed + 99).to(device)
            fitted = component.fit(batch, self._target(1, device, counted=False), generator(0, device), silent)
            return component, component.build(device, fitted)
        return component, component.build(device)

    def sizes(self) -> list[tuple[int, ...]]:
        return [(2, 64, 64), (1, 75, 61), (5, 64, 64)]

    def _target(self, n: int, device: torch.device, *, counted: bool = True) -> MetricTarget:
        white = self.component.info.access == "white_box"
        budget = self.component.budget().queries if counted else None
        score = samples.Quality(self.seed).to(device)
        return MetricTarget(score, score.bounds, images=n, differentiable=white, budget=budget)

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        """Return the attacked images, whose budget is checked."""
        recipe, perturb = built
        batch = inputs[0]
        attacked = perturb(batch.clone(), self._target(len(batch), device), ImageRng(seeds, device))
        attacked = check_images(attacked, len(batch), recipe.label, tuple(batch.shape[1:]))
        check_budget(recipe, batch, attacked)
        return attacked

    def check(self, result: torch.Tensor, n: int) -> None:
        check_images(result, n, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "raises the score of what it attacks", self._gains
        yield "gains as much alone as in the batch", self._alone
        for strength in self.component.info.strengths:
            yield f"keeps its budget at strength {strength}", lambda s=strength: self._strength(s)  # type: ignore[misc]

    def _gains(self) -> str:
        score, (batch,) = samples.Quality(self.seed), self.inputs(2)
        gain = float((score(self.call(self.build(self.component), [batch], [1, 2])) - score(batch)).mean())
        if gain <= 0 and self.component.info.norm != "unrestricted":
            raise ContractError(f"the mean score of the attacked images changed by {gain:.3g}")
        return f"mean gain {gain:.3g} on scores in (0, 1)"

    def _alone(self) -> str:
        """Compare scores, not pixels: a step that rounding turned gives other pixels and as good an attack."""
        built, (batch,), seeds = self.build(self.component), self.inputs(2), [1, 2]
        score = samples.Quality(self.seed)
        together = score(self.call(built, [batch], seeds))
        alone = torch.cat([score(self.call(built, [batch[i : i + 1]], seeds[i : i + 1])) for i in range(2)])
        off = float((together - alone).abs().max())
        if off > SCORE_TOLERANCE:
            raise ContractError(f"an image's score differs by {off:.3g} when it is attacked alone")
        return f"scores differ by at most {off:.2g}"

    def _strength(self, strength: str) -> None:
        changed = self.component.at(strength)
        probe = AttackProbe(changed, self.seed)
        probe.call(probe.build(changed), self.inputs(2), [1, 2])


class CertificationProbe(Probe):
    """Smooths a metric that is linear in the mean grey level, whose smoothed value is known."""

    component: Certification
    by_row = True

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        return component.noisy().smooth(device), component.build(device)

    def sizes(self) -> list[tuple[int, ...]]:
        return [(2, 32, 32), (1, 35, 33)]

    def inputs(self, n: int, height: int = 32, width: int = 32) -> Inputs:
        return super().inputs(n, height, width)

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        smooth, certify = built
        with torch.no_grad():
            noisy = smooth(_grey, inputs[0], ImageRng(seeds, device))
            found = certify(noisy, (0.0, 1.0))
        return torch.stack([found.value, found.radius, found.delta, found.abstained.float()], dim=1).nan_to_num(-1.0)

    def check(self, result: torch.Tensor, n: int) -> None:
        if result.shape != (n, 4) or bool((result[:, 3] != result[:, 3].round()).any()):
            raise ContractError(f"expected a certificate for each of {n} images, got {tuple(result.shape)}")

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "keeps its promise within the radius", self._promise

    def _promise(self) -> str:
        """Move images by the promised radius along random directions: the class of the smoothed value must stay."""
        built, (batch,) = self.build(self.component), self.inputs(6)
        first = self.call(built, [batch], self.seeds(6))
        radius = first[:, 1].clamp(min=0)
        kept = (first[:, 3] == 0) & (radius > 0)
        if not bool(kept.any()):
            return "no radius was promised"
        direction = F.normalize(torch.randn(batch.shape, generator=generator(self.seed + 5)).flatten(1), dim=1)
        moved = batch + (0.99 * radius[:, None] * direction).view_as(batch)
        second = self.call(built, [moved], [s + 500 for s in self.seeds(6)])
        broken = kept & (second[:, 3] == 0) & ((second[:, 0] - first[:, 0]).abs() > 1e-6)
        if bool(broken.any()):
            raise ContractError(f"the class of {int(broken.sum())} images changed inside the certified radius")
        return f"{int(kept.sum())} promises held"


def _grey(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1).mean(dim=1)

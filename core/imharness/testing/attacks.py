"""The checks of attacks: they attack a small network, and must raise its score, or move it if they claim no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from imharness.contracts.attack import BaseAttack
from imharness.contracts.call import checked
from imharness.contracts.federated_round import LABELS, Round
from imharness.contracts.fitted_attack import FittedAttack
from imharness.contracts.randomness import generator
from imharness.contracts.reconstruction_attack import ReconstructionAttack
from imharness.errors import ContractError
from imharness.running.target import MetricTarget
from imharness.testing import samples
from imharness.testing.probe import CPU, Inputs, OwnCheck, Probe, silent

SCORE_TOLERANCE = 0.05
"""How far scores in (0, 1) may differ between an image that is attacked alone and in a batch."""


class AttackProbe(Probe):
    """Attacks a small network; the budget of queries holds for each image, and a black-box attack gets no gradient."""

    component: BaseAttack
    sizes = ((2, 64, 64), (1, 75, 61), (5, 64, 64))

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        if isinstance(component, FittedAttack):
            batch = samples.images(8, 64, 64, self.seed + 99).to(device)
            fit = checked(component, component.fit, "fit")
            fitted = fit(batch, self._target(1, device, training=True), generator(0), silent)
            return component.build(device, fitted)
        return component.build(device)

    def _target(self, n: int, device: torch.device, *, training: bool = False) -> MetricTarget:
        white = self.component.info.access == "white_box"
        budget = None if training else self.component.budget().queries
        score = samples.Quality(self.seed).to(device)
        return MetricTarget(score, score.bounds, images=n, differentiable=white, budget=budget, training=training)

    def inputs(self, n: int, height: int = 64, width: int = 64) -> Inputs:
        return {"images": samples.images(n, height, width, self.seed + n)}

    def further(self, inputs: Inputs, device: torch.device) -> dict[str, Any]:
        return {"target": self._target(len(inputs["images"]), device)}

    def own_checks(self) -> Iterator[OwnCheck]:
        yield f"{'raises' if self.component.info.raises else 'moves'} the score of what it attacks", self._gains
        yield "gains as much alone as in the batch", self._alone
        for strength in self.component.info.strengths:
            yield f"keeps its budget at strength {strength}", lambda s=strength: self._strength(s)  # type: ignore[misc]

    def _gains(self) -> str:
        score, inputs = samples.Quality(self.seed), self.inputs(2)
        attacked = self.call(self.built, inputs, [1, 2])
        gains = score(attacked) - score(inputs["images"])
        gain = float((gains if self.component.info.raises else gains.abs()).mean())
        if gain <= 0 and self.component.info.norm != "unrestricted":
            raise ContractError(f"the mean score of the attacked images changed by {gain:.3g}")
        return f"mean gain {gain:.3g} on scores in (0, 1)"

    def _alone(self) -> str:
        """Compare scores, not pixels: a step that rounding reverses changes pixels, but not how good the attack is."""
        built, inputs, seeds = self.built, self.inputs(2), [1, 2]
        score = samples.Quality(self.seed)
        together = score(self.call(built, inputs, seeds))
        results = [self.call(built, self.picked(inputs, [i]), seeds[i : i + 1]) for i in range(2)]
        alone = torch.cat([score(result) for result in results])
        off = float((together - alone).abs().max())
        if off > SCORE_TOLERANCE:
            raise ContractError(f"an image's score differs by {off:.3g} when it is attacked alone")
        return f"scores differ by at most {off:.2g}"

    def _strength(self, strength: str) -> None:
        changed = self.component.at(strength)
        probe, inputs = AttackProbe(changed, self.seed), self.inputs(2)
        probe.check(probe.call(probe.build(changed), inputs, [1, 2]), inputs, [1, 2])


class ReconstructionProbe(Probe):
    """Rebuilds images; rows alone and in a batch are not compared, as optimisers turn rounding into other images."""

    component: ReconstructionAttack
    sizes = ((2, 8, 8),)

    def inputs(self, n: int, height: int = 8, width: int = 8) -> Inputs:
        return {"images": samples.images(n, height, width, self.seed + n)}

    def further(self, inputs: Inputs, device: torch.device) -> dict[str, Any]:
        batch = inputs["images"]
        network = samples.classifier(batch[0].numel(), samples.CLASSES, self.seed).to(device)
        gradients = _gradients(network, batch)
        own_round = self.component.round()
        if own_round is not None:
            return self._after_a_round(own_round, network, batch)
        batches = self.component.batches(len(batch))
        shared = {name: torch.stack([g[rows].mean(dim=0) for rows in batches]) for name, g in gradients.items()}
        network.requires_grad_(False)
        return {"gradients": shared, "model": network, "shape": tuple(batch.shape[1:]), "progress": silent}

    def _after_a_round(self, training_round: Round, network: torch.nn.Module, batch: torch.Tensor) -> dict[str, Any]:
        """Share the mean gradient of the batch: one participant, one step, with the labels where they are known."""
        shape = (batch.shape[1], batch.shape[2], batch.shape[3])
        sent = self.component.sent(network, shape)
        shared = {name: g.mean(dim=0, keepdim=True) for name, g in _gradients(sent, batch).items()}
        labels = torch.arange(len(batch), device=batch.device) % samples.CLASSES
        extras = {LABELS: labels[None]} if training_round.labels_known else {}
        sent.requires_grad_(False)
        return {"gradients": shared | extras, "model": sent, "shape": shape, "progress": silent}


def _gradients(network: torch.nn.Module, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return parameter -> the gradient of each image, ``(n, *shape)``."""
    gradients: list[dict[str, torch.Tensor]] = []
    for i in range(len(batch)):
        label = torch.tensor([i % samples.CLASSES], device=batch.device)
        loss = F.cross_entropy(network(batch[i : i + 1]), label)
        names, parameters = zip(*network.named_parameters(), strict=True)
        gradients.append(dict(zip(names, torch.autograd.grad(loss, parameters), strict=True)))
    return {name: torch.stack([example[name] for example in gradients]).detach() for name in gradients[0]}

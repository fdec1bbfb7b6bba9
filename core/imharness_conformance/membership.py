"""How membership evaluators and defenses are called and what they must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from imharness.contracts.membership import (
    DefenderOutputs,
    LastLayerGradients,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    References,
    Robustness,
    TrainingData,
    TrainingPlan,
)
from imharness.errors import ContractError
from imharness.randomness import generator
from imharness.running.checks import check_scores
from imharness_conformance import samples
from imharness_conformance.probe import CLASSES, CPU, Inputs, OwnCheck, Probe, silent


class EvaluatorProbe(Probe):
    component: MembershipEvaluator
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(40,), (41,)]

    def inputs(self, n: int, height: int = 0, width: int = 0) -> Inputs:
        shadow, shadow_labels = samples.probabilities(2 * n, CLASSES, 2.0, self.seed)
        target, labels = samples.probabilities(n, CLASSES, 2.0, self.seed + 1)
        return [target, labels, shadow, shadow_labels]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        result: torch.Tensor = built(self._query(inputs))
        return result

    def _query(self, inputs: Inputs) -> MembershipQuery:
        target, labels, shadow, shadow_labels = inputs
        n, m = len(target), len(shadow)
        rng = generator(self.seed + 2)
        member = torch.arange(m) % 2 == 0

        def draw(*shape: int) -> torch.Tensor:
            return torch.rand(shape, generator=rng).to(target.device)

        reads, own = self.component.reads, target.gather(1, labels[:, None])[:, 0]
        odds = own.logit(1e-6)
        inside = draw(6, n) > 0.5
        references = References(odds + draw(6, n) + inside, inside, draw(6, 10), draw(10))
        errors, features = draw(n, CLASSES), draw(n, 5)
        return MembershipQuery(
            shadow_outputs=shadow,
            shadow_labels=shadow_labels,
            shadow_member=member.to(target.device),
            target_outputs=target,
            target_labels=labels,
            references=references if "references" in reads else None,
            robustness=Robustness(draw(m), own) if "robustness" in reads else None,
            gradients=LastLayerGradients(draw(m, CLASSES), draw(m, 5), errors, features)
            if "gradients" in reads
            else None,
        )

    def check(self, result: torch.Tensor, n: int) -> None:
        check_scores(result, n, self.component.label)

    def own_checks(self) -> Iterator[OwnCheck]:
        if not self.component.reads:
            yield "does not depend on the order of the target's rows", self._order

    def _order(self) -> None:
        built, inputs = self.build(self.component), self.inputs(40)
        order = torch.randperm(40, generator=generator(self.seed))
        turned = [inputs[0][order], inputs[1][order], *inputs[2:]]
        straight, back = self.call(built, inputs, []), torch.empty(40)
        back[order] = self.call(built, turned, []).float()
        if not torch.allclose(straight.float(), back, rtol=1e-3, atol=1e-4):
            raise ContractError("rows got other scores when their order changed")


class ReleaseProbe(Probe):
    component: MembershipRelease
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(20,)]

    def inputs(self, n: int, height: int = 0, width: int = 0) -> Inputs:
        return [samples.probabilities(n, CLASSES, 2.0, self.seed)[0]]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        held = DefenderOutputs(
            *(samples.probabilities(30, CLASSES, s, i)[0].to(device) for i, s in enumerate((4.0, 1.0)))
        )
        result: torch.Tensor = built(inputs[0], held, generator(seeds[0], device))
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        if result.shape != (n, CLASSES) or not bool(torch.isfinite(result).all()) or _outside(result):
            raise ContractError(f"expected probabilities ({n}, {CLASSES}), got {tuple(result.shape)}")


def _outside(outputs: torch.Tensor) -> bool:
    return bool((outputs < -1e-6).any() or (outputs > 1 + 1e-6).any())


class TrainingProbe(Probe):
    component: MembershipTraining
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(40,)]

    def inputs(self, n: int, height: int = 0, width: int = 0) -> Inputs:
        rng = generator(self.seed)
        return [torch.rand(n, 12, generator=rng), torch.randint(CLASSES, (n,), generator=rng)]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        features, labels = inputs
        half = len(features) // 2
        data = TrainingData(features[:half], labels[:half], features[half:], labels[half:])
        network = samples.classifier(12, CLASSES, self.seed).to(device)
        plan = TrainingPlan(epochs=2, batch_size=8, learning_rate=0.01)
        trained = built(network, data, plan, generator(seeds[0], device), silent)
        if trained.training:
            raise ContractError("the network came back in training mode; call eval()")
        with torch.no_grad():
            result: torch.Tensor = trained(features)
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        if result.shape != (n, CLASSES) or not bool(torch.isfinite(result).all()):
            raise ContractError(f"the trained network gave no finite logits ({n}, {CLASSES})")

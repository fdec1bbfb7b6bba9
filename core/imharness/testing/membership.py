"""The checks of membership evaluators and trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from imharness.contracts.membership_evaluator import (
    LastLayerGradients,
    LayerGradients,
    MembershipEvaluator,
    MembershipQuery,
    References,
    Robustness,
)
from imharness.contracts.membership_training import MembershipTraining, TrainingData, TrainingPlan
from imharness.contracts.randomness import generator
from imharness.errors import ContractError
from imharness.testing import samples
from imharness.testing.crossing import joined, tensors
from imharness.testing.data import ModelProbe
from imharness.testing.probe import Inputs, OwnCheck, Probe, silent
from imharness.testing.samples import CLASSES

ROWS_OF_TARGET = tuple(
    f"query.{name}"
    for name in (
        "target_outputs",
        "target_labels",
        "robustness.target",
        "gradients.target_error",
        "gradients.target_features",
        "layers.target_inputs",
        "layers.target_slopes",
        "layers.target_norms",
    )
)
"""The fields of a query whose first axis is the target's rows."""


class EvaluatorProbe(Probe):
    component: MembershipEvaluator
    sizes = ((40, 1, 1), (41, 1, 1))

    def inputs(self, n: int, height: int = 1, width: int = 1) -> Inputs:
        """Return a query about n rows of the target, with 2n of the shadow model and whatever the evaluator reads."""
        shadow, shadow_labels = samples.probabilities(2 * n, self.seed)
        target, labels = samples.probabilities(n, self.seed + 1)
        m, rng = len(shadow), generator(self.seed + 2)
        member = torch.arange(m) % 2 == 0

        def draw(*shape: int) -> torch.Tensor:
            """Return uniform numbers in [0, 1); each call goes on in the stream, so that the order of calls matters."""
            return torch.rand(shape, generator=rng)

        reads, confidences = self.component.reads, target.gather(1, labels[:, None])[:, 0]
        odds = confidences.logit(1e-6)
        inside = draw(6, n) > 0.5
        references = References(odds + draw(6, n) + inside, inside, draw(6, 10), draw(10))
        errors, features = draw(n, CLASSES), draw(n, 5)
        # Two layers, of 5 inputs and 4 outputs, and of 4 and `CLASSES`: 9 inputs and 4 + CLASSES outputs together.
        sizes_of_layers, widths = torch.tensor([[5, 4], [4, CLASSES]]), (9, 4 + CLASSES, 2)
        query = MembershipQuery(
            shadow_outputs=shadow,
            shadow_labels=shadow_labels,
            shadow_member=member,
            target_outputs=target,
            target_labels=labels,
            references=references if "references" in reads else None,
            robustness=Robustness(draw(m), confidences) if "robustness" in reads else None,
            gradients=LastLayerGradients(draw(m, CLASSES), draw(m, 5), errors, features)
            if "gradients" in reads
            else None,
            layers=LayerGradients(sizes_of_layers, *(draw(rows, width) for rows in (m, n) for width in widths))
            if "layers" in reads
            else None,
        )
        return joined({"query": tensors(self.contract.arguments["query"], query)})

    def bare(self) -> Mapping[str, Inputs]:
        usual = self.inputs(40)
        shadow = samples.bare_outputs(usual["query.shadow_outputs"])
        target = samples.bare_outputs(usual["query.target_outputs"])
        return {
            what: {**usual, "query.shadow_outputs": shadow[what], "query.target_outputs": outputs}
            for what, outputs in target.items()
        }

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "does not depend on the order of the target's rows", self._order

    def _order(self) -> None:
        built, inputs = self.built, self.inputs(40)
        order = torch.randperm(40, generator=generator(self.seed))
        reordered = {name: self._reordered(name, tensor, order) for name, tensor in inputs.items()}
        scores = self.tensor(built, inputs, []).float()
        scores_of_reordered = torch.empty(40)
        scores_of_reordered[order] = self.tensor(built, reordered, []).float()
        if not torch.allclose(scores, scores_of_reordered, rtol=1e-3, atol=1e-4):
            raise ContractError("rows got different scores when their order changed")

    def _reordered(self, name: str, tensor: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Return a field of the query with the target's rows in another order."""
        if name in ("query.references.log_odds", "query.references.member"):
            return tensor[:, order]
        return tensor[order] if name in ROWS_OF_TARGET else tensor


class TrainingProbe(ModelProbe):
    """Trains a small network on random rows."""

    component: MembershipTraining  # type: ignore[assignment]
    sizes = ((40, 1, 1),)
    classes = CLASSES

    def inputs(self, n: int, height: int = 1, width: int = 1) -> Inputs:
        rng = generator(self.seed)
        return {"images": torch.rand(n, 12, generator=rng), "labels": torch.randint(CLASSES, (n,), generator=rng)}

    def further(self, inputs: Inputs, device: torch.device) -> dict[str, Any]:
        features, labels = inputs["images"], inputs["labels"]
        half = len(features) // 2
        return {
            "network": samples.classifier(12, CLASSES, self.seed).to(device),
            "data": TrainingData(features[:half], labels[:half], features[half:], labels[half:]),
            "plan": TrainingPlan(epochs=2, batch_size=8, learning_rate=0.01),
            "progress": silent,
        }

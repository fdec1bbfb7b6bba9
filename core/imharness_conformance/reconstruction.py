"""How attacks that rebuild images, and defenses against them, are called and what they must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from imharness.contracts.reconstruction import GradientDefense, ImagePool, ImageProtection, ReconstructionAttack
from imharness.errors import ContractError
from imharness.randomness import ImageRng
from imharness.running.checks import check_images
from imharness_conformance import samples
from imharness_conformance.probe import CLASSES, CPU, Inputs, Probe, silent


class ReconstructionProbe(Probe):
    """Rows are not compared alone and in the batch: optimisers turn rounding into other images."""

    component: ReconstructionAttack
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(2, 8, 8)]

    def inputs(self, n: int, height: int = 8, width: int = 8) -> Inputs:
        return super().inputs(n, height, width)

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        batch = inputs[0]
        features = batch[0].numel()
        network = samples.classifier(features, CLASSES, self.seed).to(device)
        shared = _gradients(network, batch)
        network.requires_grad_(False)
        shape = (3, batch.shape[2], batch.shape[3])
        result: torch.Tensor = built(shared, network, shape, ImageRng(seeds, device), silent)
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        check_images(result, n, self.component.label, (3, 8, 8))


def _gradients(network: torch.nn.Module, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradient of each image by parameter, ``(n, *shape)``."""
    found: list[dict[str, torch.Tensor]] = []
    for i in range(len(batch)):
        label = torch.tensor([i % CLASSES], device=batch.device)
        loss = F.cross_entropy(network(batch[i : i + 1]), label)
        names, parameters = zip(*network.named_parameters(), strict=True)
        found.append(dict(zip(names, torch.autograd.grad(loss, parameters), strict=True)))
    return {name: torch.stack([own[name] for own in found]).detach() for name in found[0]}


class GradientDefenseProbe(Probe):
    component: GradientDefense

    def sizes(self) -> list[tuple[int, ...]]:
        return [(3, 8, 8), (1, 8, 8)]

    def inputs(self, n: int, height: int = 8, width: int = 8) -> Inputs:
        batch = samples.images(n, height, width, self.seed)
        return list(_gradients(samples.classifier(3 * height * width, CLASSES, self.seed), batch).values())

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        given = {f"layer{i}": x for i, x in enumerate(inputs)}
        found: Mapping[str, torch.Tensor] = built(dict(given), ImageRng(seeds, device))
        if {k: v.shape for k, v in found.items()} != {k: v.shape for k, v in given.items()}:
            raise ContractError("expected gradients of the same names and shapes")
        return torch.cat([found[name].flatten(1) for name in given], dim=1)

    def check(self, result: torch.Tensor, n: int) -> None:
        if not bool(torch.isfinite(result).all()):
            raise ContractError("a gradient is NaN or infinite")


class ImageProtectionProbe(Probe):
    component: ImageProtection
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(3, 32, 32), (1, 32, 32)]

    def inputs(self, n: int, height: int = 32, width: int = 32) -> Inputs:
        batch = samples.images(n, height, width, self.seed)
        return [batch, F.one_hot(torch.arange(n) % CLASSES, CLASSES).float()]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        batch, targets = inputs
        others = samples.images(8, batch.shape[2], batch.shape[3], self.seed + 1).to(device)
        pool = ImagePool(others, F.one_hot(torch.arange(8) % CLASSES, CLASSES).float().to(device))
        shown, mixed = built(batch, targets, pool, ImageRng(seeds, device))
        if shown.shape != batch.shape or mixed.shape != targets.shape:
            raise ContractError(f"expected shapes {tuple(batch.shape)}, {tuple(targets.shape)}, got "
                                f"{tuple(shown.shape)}, {tuple(mixed.shape)}")  # fmt: skip
        return torch.cat([shown.flatten(1), mixed], dim=1)

    def check(self, result: torch.Tensor, n: int) -> None:
        if not bool(torch.isfinite(result).all()):
            raise ContractError("an image or target is NaN or infinite")

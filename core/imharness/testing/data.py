"""How the conformance suite calls models and data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from imharness.contracts.call import checked
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.model import Model
from imharness.contracts.values import Rows
from imharness.testing import samples
from imharness.testing.probe import CPU, Inputs, Probe


class ModelProbe(Probe):
    """Computes the logits of a fresh network."""

    component: Model
    sizes = ((2, 32, 32),)
    classes = 10

    def inputs(self, n: int, height: int = 32, width: int = 32) -> Inputs:
        return {"images": samples.images(n, height, width, self.seed + n)}

    def further(self, inputs: Inputs, device: torch.device) -> dict[str, Any]:
        return {"shape": tuple(inputs["images"].shape[1:]), "classes": self.classes}

    def check(self, result: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> None:
        super().check(result, inputs, seeds, device)
        of_this_shape = {"logits": torch.empty(len(seeds), self.classes)}
        Rows(like="logits").check(self.flat(result, inputs), of_this_shape, len(seeds), self.component.label)

    def flat(self, result: Any, inputs: Inputs) -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = result.eval()(inputs["images"])
        return logits


class ImageDatasetProbe(Probe):
    """Loads the first images; nothing goes in, so that there is one size to try."""

    component: ImageDataset
    on_device = False
    sizes = ((1, 1, 1),)

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        return checked(component, component.build(device))

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> Any:
        same = [i for i in range(len(built)) if built.shapes[i] == built.shapes[0]][:3]
        return built.load(same)

    def check(self, result: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> None:
        """Do nothing, because the set itself checks what it loads."""

    def flat(self, result: Any, inputs: Inputs) -> torch.Tensor:
        tensor: torch.Tensor = result
        return tensor


class TableDatasetProbe(ImageDatasetProbe):
    """Takes the first rows."""

    on_device = True

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> Any:
        return torch.as_tensor(built.features)[:10].float()

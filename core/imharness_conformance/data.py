"""How models and data sets are called and what they must give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from imharness.contracts.dataset import ImageDataset, TableDataset
from imharness.contracts.model import Model
from imharness.errors import ContractError
from imharness.randomness import generator
from imharness.running.checks import check_images
from imharness_conformance.probe import CPU, Inputs, Probe


class ModelProbe(Probe):
    component: Model
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(2, 32, 32)]

    def inputs(self, n: int, height: int = 32, width: int = 32) -> Inputs:
        return super().inputs(n, height, width)

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        classes = 10
        network = built(tuple(inputs[0].shape[1:]), classes, generator(seeds[0]))
        with torch.no_grad():
            result: torch.Tensor = network.eval()(inputs[0])
        return result

    def check(self, result: torch.Tensor, n: int) -> None:
        if result.shape != (n, 10) or not bool(torch.isfinite(result).all()):
            raise ContractError(f"expected finite logits ({n}, 10), got {tuple(result.shape)}")


class ImageDatasetProbe(Probe):
    component: ImageDataset
    by_row = False

    def sizes(self) -> list[tuple[int, ...]]:
        return [(1,)]

    def inputs(self, n: int, height: int = 0, width: int = 0) -> Inputs:
        return [torch.zeros(1)]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        names, columns = list(built.names), built.columns
        if len(set(names)) != len(names) or not names:
            raise ContractError("names of images must be unique, and there must be one")
        for name, column in columns.items():
            if len(column) != len(names):
                raise ContractError(f"column {name} has {len(column)} values for {len(names)} images")
        same = [i for i in range(len(names)) if built.shapes[i] == built.shapes[0]][:3]
        loaded = check_images(built.load(same), len(same), self.component.label)
        if tuple(loaded.shape[2:]) != tuple(built.shapes[0]):
            raise ContractError(f"an image is {tuple(loaded.shape[2:])}, and shapes says {tuple(built.shapes[0])}")
        return loaded

    def check(self, result: torch.Tensor, n: int) -> None:
        check_images(result, len(result), self.component.label)


class TableDatasetProbe(ImageDatasetProbe):
    component: TableDataset  # type: ignore[assignment]

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> torch.Tensor:
        features, labels = torch.as_tensor(built.features), torch.as_tensor(built.labels)
        if len(features) != len(labels) or not bool(torch.isfinite(features).all()):
            raise ContractError("features and labels must have one length, and features be finite")
        return features[:10].float()

    def check(self, result: torch.Tensor, n: int) -> None:
        if not len(result):
            raise ContractError("the table has no rows")

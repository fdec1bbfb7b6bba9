"""Data sets of labelled feature rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from imharness.components.component import Component
from imharness.contracts.call import Builds, Data
from imharness.contracts.values import Only, finite
from imharness.errors import ContractError


@dataclass(frozen=True)
class TableSet:
    """Rows of features with a class each: float32 ``(N, *shape)`` and int64 ``(N,)``."""

    features: torch.Tensor
    labels: torch.Tensor
    classes: int


class TableSetKind(Only):
    """A table with a label for every row."""

    def check(self, value: Any, given: Mapping[str, Any], n: int, who: str) -> TableSet:
        found: TableSet = super().check(value, given, n, who)
        if not len(found.features) or len(found.features) != len(found.labels):
            raise ContractError(f"{who}: got {len(found.features)} rows and {len(found.labels)} labels; give one each")
        finite(found.features, who)
        return found


class TableDataset(Component, Builds[TableSet]):
    """A set of labelled feature rows, which `build` puts on the device."""

    kind: ClassVar[str] = "dataset"
    call = Data(returns=TableSetKind("TableSet", TableSet))

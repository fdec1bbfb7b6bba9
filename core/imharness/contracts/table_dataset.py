"""Data sets of rows: features with one class each, held in memory as a whole."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from imharness.contracts.call import Builds, Data
from imharness.contracts.component import Component
from imharness.contracts.values import Only, finite
from imharness.errors import ContractError


@dataclass(frozen=True)
class TableSet:
    """Rows of features with one class each.

    Attributes:
        features: float32 ``(N, *shape)``, finite.
        labels: int64 ``(N,)``, from 0 to ``classes - 1``.
        classes: how many classes there are.
    """

    features: torch.Tensor
    labels: torch.Tensor
    classes: int


def _check_rows(table: TableSet, who: str) -> None:
    if not len(table.features) or len(table.features) != len(table.labels):
        raise ContractError(
            f"{who}: got {len(table.features)} rows and {len(table.labels)} labels; give one label to each row"
        )
    finite(table.features, who)


class TableDataset(Component, Builds[TableSet]):
    """A set of labelled feature rows, which `build` puts on the device.

    `build` raises `Unavailable` if files are not on this machine.
    """

    kind: ClassVar[str] = "dataset"
    call = Data(returns=Only("TableSet", TableSet, _check_rows))

    def published_units(self) -> int:
        """Return how many rows the published set has with these parameters, or 0 if only reading it tells."""
        return 0

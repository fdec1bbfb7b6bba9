"""The 1,797 handwritten digits of scikit-learn (8x8 grey; Alpaydin & Kaynak, UCI 1998)."""

import numpy as np
import torch

from imharness.data import Info, TableDataset, TableSet, hookimpl
from imharness_embedded.shipped import shipped


class Digits(TableDataset):
    """Handwritten digits of ten classes, each with 64 grey values."""

    info = Info(id="harness/digits", version="1")

    def build(self, device: torch.device) -> TableSet:
        """Return 1,797 rows of 64 features in [0, 1]."""
        table = torch.from_numpy(np.loadtxt(shipped("sklearn", "datasets/data", "digits"), delimiter=","))
        return TableSet((table[:, :-1] / 16).float().to(device), table[:, -1].long().to(device), classes=10)


@hookimpl
def components() -> list[TableDataset]:
    return [Digits()]

"""The 1,797 handwritten digits of scikit-learn (8x8 grey; Alpaydin & Kaynak, UCI 1998)."""

import torch

from imharness.data import Info, TableDataset, TableSet, hookimpl


class Digits(TableDataset):
    """Handwritten digits, 64 grey values each, ten classes."""

    info = Info(id="harness/digits", version="1")

    def build(self, device: torch.device) -> TableSet:
        """Return 1,797 rows of 64 features in [0, 1]."""
        from sklearn.datasets import load_digits

        data = load_digits()
        features = torch.from_numpy(data.data / 16).float().to(device)
        return TableSet(features, torch.from_numpy(data.target).long().to(device), classes=10)


@hookimpl
def components() -> list[TableDataset]:
    return [Digits()]

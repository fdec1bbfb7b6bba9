"""Audits three published CIFAR-10 networks: one half of the rows is the shadow, the other half is attacked.

Usage: ``python -m benchmarks.cifar10_audit ASSETS OUT``. ASSETS is the folder of the study `cifar10`, with
cifar10/train/CLASS/*.jpg, cifar10/test/CLASS/*.jpg and the weights. For each network an npz file, a report and its
facts as JSON are written to OUT, and the findings printed.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from imharness.cli import console
from imharness.contracts.assets import add_folder
from imharness.contracts.randomness import generator
from imharness_membership.command import membership
from imharness_vision.cifar_resnet import DEPTHS, published

SIDES = {"train": "member", "test": "nonmember"}


def images_of(folder: Path) -> tuple[torch.Tensor, np.ndarray]:
    """Return images ``(n, 3, 32, 32)`` in [0, 1] and classes ``(n,)`` of a folder with a folder for each class."""
    files = sorted(folder.glob("*/*.jpg"), key=lambda file: file.relative_to(folder).as_posix())
    stack = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    classes, labels = np.unique([file.parent.name for file in files], return_inverse=True)
    assert len(classes) == 10
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float() / 255, labels


def main(assets: Path, out: Path) -> None:
    add_folder(assets)
    out.mkdir(parents=True, exist_ok=True)
    data = {split: images_of(assets / "cifar10" / split) for split in SIDES}
    for name in DEPTHS:
        network, arrays = published(name, torch.device("cpu")), {}
        for subset, side in SIDES.items():
            images, labels = data[subset]
            with torch.no_grad():
                outputs = torch.cat([network(x).softmax(1) for x in images.split(500)]).numpy()
            halves = torch.randperm(len(labels), generator=generator(0)).numpy().reshape(2, -1)
            for model, rows in zip(("shadow", "target"), halves, strict=True):
                arrays |= {f"{model}_{side}_outputs": outputs[rows], f"{model}_{side}_labels": labels[rows]}
        file = out / f"{name}.npz"
        np.savez(file, **arrays)
        console.say(f"\n{name}")
        words = ["audit", str(file), "--html", str(file.with_suffix(".html")), "--json", str(file.with_suffix(".json"))]
        membership.main(words, standalone_mode=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

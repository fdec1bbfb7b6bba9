"""Reconstructing a batch, compared with one image at a time; and per-image gradients, compared with a loop."""

import time

import torch

from benchmarks.timing import Line
from imharness.data import ImageRng, generator
from imharness_embedded.photographs import Thumbnails
from imharness_reconstruction.attacks.dlg import Dlg
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.models.lenet import LeNet
from imharness_reconstruction.per_image import image_gradients

CPU, COUNT = torch.device("cpu"), 16


def lines() -> list[Line]:
    """Return the speed of two attacks and of the gradients."""
    return [_attack(InvGrad(steps=40)), _attack(Dlg(iterations=40, starts=1)), _gradients()]


def _setting() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    data = Thumbnails().build(CPU)
    images, labels = data.load(list(range(COUNT))), torch.from_numpy(data.columns["label"])[:COUNT].long()
    return LeNet().build(CPU)((3, 32, 32), 9, generator(0)).requires_grad_(False), images, labels


def _attack(component: InvGrad | Dlg) -> Line:
    network, images, labels = _setting()
    shared, attack = image_gradients(network, images, labels), component.build(CPU)
    quiet = lambda done, total: None  # noqa: E731

    def run(rows: slice) -> torch.Tensor:
        subset = {name: values[rows] for name, values in shared.items()}
        return attack(subset, network, (3, 32, 32), ImageRng(range(COUNT)[rows]), quiet)

    run(slice(0, 1))
    start = time.perf_counter()
    whole = run(slice(0, COUNT))
    together = time.perf_counter() - start
    start = time.perf_counter()
    single = torch.cat([run(slice(i, i + 1)) for i in range(COUNT)])
    ratio = (time.perf_counter() - start) / together
    gap = float((whole - single).abs().median())
    what = f"{component.info.id}, {COUNT} images of 32 px at once: times faster than image by image"
    return Line(what, f"{ratio:.1f}x, median difference {gap:.0e}", ">= 1x", ratio >= 1)


def _gradients() -> Line:
    network, images, labels = _setting()
    image_gradients(network, images[:1], labels[:1])
    start = time.perf_counter()
    image_gradients(network, images, labels)
    together = time.perf_counter() - start
    network.requires_grad_(True)
    start = time.perf_counter()
    for i in range(COUNT):
        loss = torch.nn.functional.cross_entropy(network(images[i : i + 1]), labels[i : i + 1])
        torch.autograd.grad(loss, list(network.parameters()))
    ratio = (time.perf_counter() - start) / together
    what = f"Gradients of {COUNT} images, one each: times faster than a loop of backward passes"
    return Line(what, f"{ratio:.1f}x", ">= 1x", ratio >= 1)

"""Gradients of single images: products with patches, as on a GPU, give those of the CPU's grouped convolutions."""

import pytest
import torch

from imharness.contracts.randomness import generator, seeded_init
from imharness_reconstruction import per_image
from imharness_vision.cifar_resnet import CifarResNet


def test_products_with_patches_are_the_gradients_of_grouped_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded_init(generator(0)):
        network = CifarResNet(3, 10, 8).eval().requires_grad_(False)
    images, labels = torch.rand(3, 3, 16, 16, generator=generator(1)), torch.arange(3)

    def found() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        leaf = images.clone().requires_grad_(True)
        gradients = per_image.image_gradients(network, leaf, labels)
        loss = sum((values.square().sum() for values in gradients.values()), torch.zeros(()))
        (slope,) = torch.autograd.grad(loss, leaf)
        return {name: values.detach() for name, values in gradients.items()}, slope

    grouped, of_grouped = found()
    monkeypatch.setattr(per_image, "BLOCK", 10**9)  # no layer has so many channels, as if this were a GPU
    products, of_products = found()
    for name, values in grouped.items():
        torch.testing.assert_close(products[name], values, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(of_products, of_grouped, rtol=1e-3, atol=1e-5)

"""Gradients of single images: every way to compute them gives those of autograd, on a CPU and as on a GPU."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from imharness.contracts.randomness import generator, seeded_init
from imharness_reconstruction import per_image
from imharness_vision.cifar_resnet import CifarResNet


def test_products_with_patches_are_the_gradients_of_grouped_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded_init(generator(0)):
        network = CifarResNet(3, 10, 8).eval().requires_grad_(False)
    images, labels = torch.rand(3, 3, 16, 16, generator=generator(1)), torch.arange(3)

    def gradients_and_slopes() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        leaf = images.clone().requires_grad_(True)
        gradients = per_image.image_gradients(network, leaf, labels)
        loss = sum((values.square().sum() for values in gradients.values()), torch.zeros(()))
        (slope,) = torch.autograd.grad(loss, leaf)
        return {name: values.detach() for name, values in gradients.items()}, slope

    grouped, of_grouped = gradients_and_slopes()
    assert per_image._trusted[network] is per_image._by_layers
    monkeypatch.setattr(per_image, "BLOCK", 10**9)  # no layer has so many channels, as if this were a GPU
    products, of_products = gradients_and_slopes()
    for name, values in grouped.items():
        torch.testing.assert_close(products[name], values, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(of_products, of_grouped, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("window", [((5, 5), (1, 1), (2, 2), (2, 2)), ((3, 2), (2, 3), (0, 1), (1, 2))])
def test_patches_are_those_of_unfold(window: tuple[tuple[int, int], ...], columns: int) -> None:
    kernel, dilation, padding, stride = window
    images = torch.rand(2, 3, 11, 2 * columns, generator=generator(0)).transpose(2, 3).contiguous().transpose(2, 3)
    patches = per_image._patches(images, *window)
    assert torch.equal(patches, F.unfold(images, kernel, dilation, padding, stride))
    assert patches.is_contiguous()


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.a, self.b = nn.Linear(48, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.sigmoid(self.b(torch.sigmoid(self.a(torch.sigmoid(self.first(x.flatten(1))))))))


class Reused(Tied):
    """A weight that is used outside its layer, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sigmoid(self.a(torch.sigmoid(self.first(x.flatten(1)))))
        return self.last(torch.tanh(hidden @ self.a.weight))


class Standardised(nn.Conv2d):
    """A convolution whose weights are standardised first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight / self.weight.std(dim=(1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class Branching(Reused):
    """Branches on a value, which vmap cannot follow."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x if x.mean().item() > 0.1 else 2 * x)


class Coupled(Tied):
    """Centres a batch, so that each image changes what becomes of the others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - 0.5 * x.mean(dim=0, keepdim=True))


def standardised() -> nn.Module:
    return nn.Sequential(Standardised(3, 8, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(32, 4))


def normed(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.Sigmoid(), nn.Flatten(), nn.Linear(32, 4))


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (Tied, per_image._by_layers),
        (Reused, per_image._mapped),
        (standardised, per_image._mapped),
        (lambda: normed(nn.BatchNorm2d(8)), per_image._by_layers),
        (lambda: normed(nn.BatchNorm2d(8, track_running_stats=False)), per_image._by_autograd),
        (lambda: normed(nn.LayerNorm([8, 2, 2])), per_image._by_autograd),
        (lambda: normed(nn.GroupNorm(2, 8)), per_image._mapped),
        (lambda: normed(nn.InstanceNorm2d(8, affine=True)), per_image._by_autograd),
        (lambda: normed(nn.RMSNorm([8, 2, 2])), per_image._mapped),
        (Branching, per_image._by_autograd),
        (Coupled, per_image._mapped),
    ],
)
def test_each_network_is_computed_in_the_expected_way_and_has_the_gradients_of_autograd(make, way) -> None:
    with seeded_init(generator(0)):
        network = make().double().eval().requires_grad_(False)
    images = torch.rand(3, 3, 4, 4, dtype=torch.float64, generator=generator(1)).requires_grad_(True)
    labels = torch.tensor([2, 0, 3])
    gradients = per_image.image_gradients(network, images, labels)
    assert per_image._trusted[network] is way
    free = copy.deepcopy(network).requires_grad_(True)
    loop = [
        torch.autograd.grad(
            F.cross_entropy(free(images[i : i + 1]), labels[i : i + 1]),
            list(free.parameters()),
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        for i in range(3)
    ]
    for values, rows in zip(gradients.values(), zip(*loop, strict=True), strict=True):
        torch.testing.assert_close(values, torch.stack(rows))
    ours, plain = (
        torch.autograd.grad(sum(values.square().sum() for values in group), images, retain_graph=True)[0]
        for group in (gradients.values(), [values for row in loop for values in row])
    )
    torch.testing.assert_close(ours, plain)
    assert not any(
        values.requires_grad for values in per_image.image_gradients(network, images.detach(), labels).values()
    )

"""APRIL computes images from two gradients of a vision transformer; for other networks it returns grey."""

import pytest
import torch
from torch import nn

from imharness.components.registry import installed
from imharness.data import generator
from imharness.errors import UsageError
from imharness.gradients import Gradients, ImageRng
from imharness_reconstruction.attacks.april import April
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.models.tiny_vit import TinyViT
from imharness_reconstruction.notebook.reconstruct import reconstruct
from imharness_reconstruction.per_image import image_gradients

CPU = torch.device("cpu")
SHAPE = (3, 16, 16)
CLASSES = 10


@pytest.fixture(scope="module")
def photographs() -> tuple[torch.Tensor, torch.Tensor]:
    data = installed().one("dataset", "thumbnails[size=16,per_photograph=1]").build(CPU)
    return data.load([0, 1, 2]), torch.from_numpy(data.columns["label"][:3].copy()).long()


def network(**fields: int) -> nn.Module:
    return TinyViT(**fields).build(CPU)(SHAPE, CLASSES, generator(0)).eval().requires_grad_(False)


def rebuilt(model: nn.Module, shared: Gradients) -> torch.Tensor:
    """Return APRIL's reconstructions of three images, (3, 3, 16, 16)."""
    return April().build(CPU)(shared, model, SHAPE, ImageRng(range(3)), lambda *done: None)


class WithClass(nn.Module):
    """A transformer with a class token before the patches' tokens, and learned positions of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        tokens = self.inner.position.shape[1] + 1
        self.places = nn.Parameter(0.02 * torch.randn(tokens, 96, generator=generator(1)))
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, 96, generator=generator(2)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.inner.embedding(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1) + self.places
        logits: torch.Tensor = self.inner.head(self.inner.blocks(tokens)[:, 0])
        return logits


@pytest.mark.parametrize("build", [network, lambda: network(depth=4), WithClass])
def test_images_follow_from_the_gradients(build, photographs) -> None:
    model, (images, labels) = build().requires_grad_(False), photographs
    assert (rebuilt(model, image_gradients(model, images, labels)) - images).abs().max() < 1e-3


def test_attacks_that_match_gradients_run_beside_it(photographs) -> None:
    model, (images, labels) = network(), photographs
    shared = image_gradients(model, images, labels)
    some, more = (
        InvGrad(steps=steps).build(CPU)(shared, model, SHAPE, ImageRng(range(3)), lambda *done: None)
        for steps in (8, 16)
    )
    assert (more - some).abs().flatten(1).amax(dim=1).min() > 0.01


def test_the_images_reproduce_what_was_shared(photographs) -> None:
    model, (images, labels) = network(), photographs
    shared = image_gradients(model, images, labels)
    columns = reconstruct(shared, model, SHAPE, attack="april", originals=images).rows("reconstruct")
    assert columns["explained"].all()
    assert columns["closer"].all()
    assert max(columns["loss"]) < 1e-6 < min(columns["flat"])


def test_with_fewer_numbers_than_tokens_patches_are_mixed(photographs) -> None:
    model, (images, labels) = network(width=8), photographs
    assert (rebuilt(model, image_gradients(model, images, labels)) - images).abs().amax(dim=(1, 2, 3)).min() > 0.1


def test_of_other_networks_nothing_is_returned(photographs) -> None:
    images, labels = photographs
    lenet = installed().one("model", "lenet").build(CPU)(SHAPE, CLASSES, generator(0)).requires_grad_(False)
    shared = image_gradients(lenet, images, labels)
    result = reconstruct(shared, lenet, SHAPE, attack="april", originals=images)
    assert (rebuilt(lenet, shared) == 0.5).all()
    assert not result.rows("reconstruct")["converged"].any()


def test_gradients_and_images_that_do_not_fit_are_refused_in_a_line(photographs) -> None:
    images, labels = photographs
    model = network()
    shared = image_gradients(model, images, labels)
    del shared["position"]
    with pytest.raises(UsageError, match="gradients: position is missing"):
        rebuilt(model, shared)
    with pytest.raises(UsageError, match="patches of 5 px do not fill images"):
        network(patch=5)

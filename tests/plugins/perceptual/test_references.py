"""Features of equal references are computed once; other references, and those that need gradients, get their own."""

import torch

from imharness_perceptual.references import ReferenceFeatures


class Counted:
    """Sums of images; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked, self.images = 0, 0

    def __call__(self, images: torch.Tensor) -> list[torch.Tensor]:
        self.asked += 1
        self.images += len(images)
        return [images.sum(dim=(1, 2, 3))]


def test_equal_references_are_computed_once_and_others_anew() -> None:
    compute, first = Counted(), torch.rand(2, 3, 8, 8)
    cache = ReferenceFeatures(compute, limit=2)
    for images in (first, first.clone(), first):
        assert torch.equal(cache(images)[0], images.sum(dim=(1, 2, 3)))
    assert compute.asked == 1
    other = first.clone()
    other[1, 2, 7, 7] += 1e-3
    assert torch.equal(cache(other)[0], other.sum(dim=(1, 2, 3)))
    assert torch.equal(cache(first[:1])[0], first[:1].sum(dim=(1, 2, 3)))
    cache(first)  # two others were computed since, and the cache holds two
    assert compute.asked == 4


def test_a_reference_that_a_batch_repeats_is_computed_once() -> None:
    compute, two = Counted(), torch.rand(2, 3, 8, 8)
    batch = two[[1, 0, 1, 1, 0]]
    assert torch.equal(ReferenceFeatures(compute, limit=1)(batch)[0], batch.sum(dim=(1, 2, 3)))
    assert compute.images == 2


def test_a_reference_that_needs_a_gradient_gets_it() -> None:
    cache = ReferenceFeatures(Counted(), limit=2)
    cache(torch.ones(1, 3, 8, 8))
    leaf = torch.ones(1, 3, 8, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(cache(leaf)[0].sum(), leaf)
    assert torch.equal(gradient, torch.ones_like(gradient))

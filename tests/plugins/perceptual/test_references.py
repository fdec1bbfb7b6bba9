"""Features of references are computed once, and are those of the references at hand."""

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
    known = ReferenceFeatures(compute, kept=2)
    for images in (first, first.clone(), first):
        assert torch.equal(known(images)[0], images.sum(dim=(1, 2, 3)))
    assert compute.asked == 1
    other = first.clone()
    other[1, 2, 7, 7] += 1e-3
    assert torch.equal(known(other)[0], other.sum(dim=(1, 2, 3)))
    assert torch.equal(known(first[:1])[0], first[:1].sum(dim=(1, 2, 3)))
    known(first)  # two others were asked for since
    assert compute.asked == 4


def test_a_reference_that_a_batch_repeats_is_computed_once() -> None:
    compute, two = Counted(), torch.rand(2, 3, 8, 8)
    batch = two[[1, 0, 1, 1, 0]]
    assert torch.equal(ReferenceFeatures(compute, kept=1)(batch)[0], batch.sum(dim=(1, 2, 3)))
    assert compute.images == 2


def test_a_reference_that_needs_a_gradient_gets_it() -> None:
    known = ReferenceFeatures(Counted(), kept=2)
    known(torch.ones(1, 3, 8, 8))
    leaf = torch.ones(1, 3, 8, 8, requires_grad=True)
    (found,) = torch.autograd.grad(known(leaf)[0].sum(), leaf)
    assert torch.equal(found, torch.ones_like(found))

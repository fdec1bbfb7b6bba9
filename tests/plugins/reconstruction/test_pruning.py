"""Zeros by pruning are distinguished from zeros of a plain gradient, by inactive units or black pixels."""

import pytest
import torch
from torch import nn

from imharness.data import generator
from imharness_reconstruction.defenses.gradient_pruning import pruned
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.notebook.reconstruct import reconstruct
from imharness_reconstruction.per_image import image_gradients

SIDE = 16


def digits() -> torch.Tensor:
    """Images ``(4, 1, 16, 16)`` of bright strokes on black, as of digits."""
    strokes = torch.rand(4, 1, SIDE, SIDE, generator=generator(1))
    return strokes * (torch.rand(4, 1, SIDE, SIDE, generator=generator(2)) > 0.8)


def drawn(network: nn.Module) -> nn.Module:
    rng = generator(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / max(parameter[0].numel(), 16) ** 0.5)
    return network.eval().requires_grad_(False)


def dense() -> nn.Module:
    return drawn(nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 64), nn.ReLU(), nn.Linear(64, 10)))


def convolutional() -> nn.Module:
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10)]
    return drawn(nn.Sequential(*layers))


Gradients = dict[str, torch.Tensor]


def gradients(network: nn.Module) -> Gradients:
    return image_gradients(network, digits(), torch.arange(4))


def noised(shared: Gradients) -> Gradients:
    return {name: g + 1e-3 * torch.randn(g.shape, generator=generator(3)) for name, g in shared.items()}


def at_random(shared: Gradients, share: float) -> Gradients:
    return {name: g * (torch.rand(g.shape, generator=generator(4)) > share) for name, g in shared.items()}


@pytest.mark.parametrize("make", [dense, convolutional])
def test_a_plain_gradient_keeps_its_zeros_whatever_their_number(make) -> None:
    shared = gradients(make())
    sparse = sum(int((g == 0).sum()) for g in shared.values()) / sum(g.numel() for g in shared.values())
    assert sparse > 0.5
    for plain in (
        shared,
        noised(shared),
        {name: 1e-10 * g for name, g in shared.items()},
        {name: g.bfloat16().float() for name, g in shared.items()},
        {name: g.mean(dim=0, keepdim=True) for name, g in shared.items()},
    ):
        assert survivors(plain) is None


@pytest.mark.parametrize("make", [dense, convolutional])
@pytest.mark.parametrize("share", [0.7, 0.9, 0.95])
def test_zeros_of_pruning_are_masked_by_magnitude_and_at_random(make, share: float) -> None:
    shared = gradients(make())
    for guarded in ({name: pruned(g, share) for name, g in shared.items()}, at_random(shared, share)):
        masks = survivors(guarded)
        assert masks is not None
        for name, g in guarded.items():
            assert bool((masks[name][g != 0] == 1).all())
            changed = (shared[name] != 0) & (g == 0)  # by the defense
            assert float(changed.float().mean()) < 0.05 or float(masks[name][changed].mean()) < 0.05, name


def test_each_gradient_is_judged_by_itself() -> None:
    shared = gradients(dense())
    mixed = {name: torch.cat([pruned(g[:1], 0.95), g[1:]]) for name, g in shared.items()}
    masks = survivors(mixed)
    assert masks is not None
    assert all(bool((mask[1:] == 1).all()) for mask in masks.values())
    assert any(bool((mask[0] == 0).any()) for mask in masks.values())


def test_nothing_but_zeros_leaves_nothing() -> None:
    masks = survivors({name: torch.zeros_like(g) for name, g in gradients(dense()).items()})
    assert masks is not None
    assert not any(mask.any() for mask in masks.values())


def test_black_pixels_and_dead_units_do_not_hide_an_image() -> None:
    network, image = dense(), digits()[:1]
    shared = [g[:1] for g in gradients(network).values()]
    result = reconstruct(
        shared, network, (1, SIDE, SIDE), attack="invgrad[steps=300]", originals=image, metrics=["psnr"]
    )
    rows = result.rows("reconstruct")
    assert rows["explained"].tolist() == rows["converged"].tolist() == rows["closer"].tolist() == [True]
    assert result.rows("leakage")["score"][0] > 40
    assert result.doubts == ()

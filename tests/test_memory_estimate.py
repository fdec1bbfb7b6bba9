"""The estimate of memory agrees with a closed form, grows linearly, and says which layer holds it."""

import pytest
import torch
from benchmarks.memory import GB, SPARE, Network
from torch import nn

SIDE = 64
ARRAY = 3 * SIDE * SIDE * 4
"""Bytes of an image in float32."""


def twice(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return images.exp().exp()


def test_two_exponentials_hold_both_results_and_two_gradients() -> None:
    found = Network(nn.Identity, (3, SIDE, SIDE), twice).cost(8)
    # the input, both results, which the gradients need, and the gradients of both
    assert found.peak == pytest.approx(5 * 8 * ARRAY, rel=0.01)
    assert found.weights == 0


def test_a_convolution_counts_its_weights_and_the_largest_layer_is_named() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Sigmoid(), nn.Conv2d(64, 1, 3, padding=1))

    network = Network(make, (3, SIDE, SIDE))
    one, two, four = (network.cost(n) for n in (1, 2, 4))
    assert one.weights == 4 * (64 * 3 * 9 + 64 * 9 + 1)
    assert four.peak - two.peak == pytest.approx(2 * (two.peak - one.peak), rel=0.02)
    assert {"1", "backward"} <= four.layers.keys(), "the sigmoid keeps its result for the gradient"
    assert four.layers["1"] == 4 * 64 * SIDE * SIDE * 4
    assert network.runs_on_gpu()


def test_what_fits_is_a_power_of_two_within_the_room() -> None:
    network = Network(nn.Identity, (3, SIDE, SIDE), twice)
    most = network.fits(0.1)
    assert most & (most - 1) == 0
    assert network.cost(most).peak <= 0.1 * GB * (1 - SPARE) < network.cost(2 * most).peak
    assert network.fits(1e-6) == 0


def test_mixed_devices_are_found() -> None:
    def mixed(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return images + torch.ones(3, SIDE, SIDE)

    with pytest.raises(RuntimeError, match="device"):
        Network(nn.Identity, (3, SIDE, SIDE), mixed).runs_on_gpu()

"""The estimate of memory agrees with a closed form, grows linearly, and says which layer holds it."""

import pytest
import torch
from benchmarks.measured import measure
from benchmarks.memory import GB, SPARE, cost, fits, runs_on_gpu
from benchmarks.networks import CATALOGUE, Network, smaller
from torch import nn

SIDE = 64
ARRAY = 3 * SIDE * SIDE * 4
"""Bytes of an image in float32."""


def twice(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return images.exp().exp()


def test_two_exponentials_hold_both_results_and_two_gradients() -> None:
    result = cost(Network(nn.Identity, (3, SIDE, SIDE), twice), 8)
    # the input, both results, which the gradients need, and the gradients of both
    assert result.peak == pytest.approx(5 * 8 * ARRAY, rel=0.01)
    assert result.weights == 0


def test_a_convolution_counts_its_weights_and_the_largest_layer_is_named() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Sigmoid(), nn.Conv2d(64, 1, 3, padding=1))

    network = Network(make, (3, SIDE, SIDE))
    one, two, four = (cost(network, n) for n in (1, 2, 4))
    assert one.weights == 4 * (64 * 3 * 9 + 64 * 9 + 1)
    assert four.peak - two.peak == pytest.approx(2 * (two.peak - one.peak), rel=0.02)
    assert {"1", "backward"} <= four.layers.keys(), "the sigmoid keeps its result for the gradient"
    assert four.layers["1"] == 4 * 64 * SIDE * SIDE * 4
    assert runs_on_gpu(network)


def test_what_fits_is_a_power_of_two_within_the_room() -> None:
    network = Network(nn.Identity, (3, SIDE, SIDE), twice)
    most = fits(network, 0.1)
    assert most & (most - 1) == 0
    assert cost(network, most).peak <= 0.1 * GB * (1 - SPARE) < cost(network, 2 * most).peak
    assert fits(network, 1e-6) == 0


def test_mixed_devices_are_found() -> None:
    def mixed(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return images + torch.ones(3, SIDE, SIDE)

    with pytest.raises(RuntimeError, match="device"):
        runs_on_gpu(Network(nn.Identity, (3, SIDE, SIDE), mixed))


def test_views_of_weights_and_images_are_counted_once() -> None:
    def seen(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        return network(images.view(len(images), -1)).T

    network = Network(lambda: nn.Linear(3 * SIDE * SIDE, 4, bias=False), (3, SIDE, SIDE), seen)
    result = cost(network, 8, back=False)
    assert result.weights == 4 * ARRAY
    assert result.peak == 4 * ARRAY + 8 * ARRAY + 8 * 4 * 4
    assert result.operations == 2 * 4 * 3 * SIDE * SIDE


@pytest.mark.parametrize("name", ["fcn", "disco", "training wrn-28-2", "inverting resnet20"])
def test_on_the_cpu_times_are_measured_beside_the_prediction(name: str) -> None:
    (measurement,) = measure(torch.device("cpu"), [name], small=True)
    assert not measurement.unavailable
    assert measurement.predicted.keys() == {2}
    forward, step = measurement.predicted[2]
    assert step > forward > 0
    assert measurement.forward_ms.keys() == measurement.step_ms.keys() >= {"strict"}
    assert measurement.step_ms["strict"] > measurement.forward_ms["strict"] > 0


def test_a_network_that_fails_costs_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> nn.Module:
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    def broken(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of\nmemory")

    monkeypatch.setitem(CATALOGUE, "lacking", Network(lacking, (3, SIDE, SIDE)))
    monkeypatch.setitem(CATALOGUE, "broken", Network(nn.Identity, (3, SIDE, SIDE), broken))
    monkeypatch.setitem(CATALOGUE, "whole", Network(nn.Identity, (3, SIDE, SIDE), twice))
    first, second, third = measure(torch.device("cpu"), ["lacking", "broken", "whole"], small=True)
    assert first.unavailable == "unavailable: the package nowhere is not installed"
    assert second.unavailable == "failed: RuntimeError: out of memory"
    assert not third.unavailable


def test_an_attack_needs_two_passes_and_training_three() -> None:
    """What the cost tables count for a step: the weights of an attacked network have no gradient."""
    for name, passes in (("disco", 2), ("training resnet20", 3)):
        network = smaller(CATALOGUE[name], SIDE, 2)
        forward, step = (cost(network, 2, back=back).operations for back in (False, True))
        assert step == pytest.approx(passes * forward, rel=0.02)

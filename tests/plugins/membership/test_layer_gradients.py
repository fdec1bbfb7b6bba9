"""Gradients of single rows, against those that autograd lays out in full."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

from imharness.components.registry import installed
from imharness.data import generator
from imharness.errors import HarnessError
from imharness_membership.evaluators.white_box_layers import AllLayersNet, convolved
from imharness_membership.layer_gradients import row_gradients

CPU = torch.device("cpu")


def laid_out(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradient of each row in every parameter, ``(n, ...)``, by the parameter's name."""
    buffers = dict(network.named_buffers())

    def loss(weights: dict[str, torch.Tensor], row: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(network, (weights, buffers), (row[None],)), label[None])

    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    return vmap(grad(loss), (None, 0, 0))(weights, x, y)


def made(name: str, shape: tuple[int, ...]) -> nn.Module:
    return installed().one("model", name).build(CPU)(shape, 7, generator(0)).eval()


def test_factors_of_all_layers_multiply_to_the_gradients_of_all_layers() -> None:
    network, x, y = made("mlp[hidden=[9,8],activation=tanh]", (12,)), torch.rand(6, 12), torch.arange(6)
    factors, wanted = row_gradients(network, x, y), laid_out(network, x, y)
    assert factors.sizes.tolist() == [[12, 9], [9, 8], [8, 7]]
    assert factors.given
    assert factors.norms.shape == (6, 0)
    inputs = torch.cat([x, factors.inputs], dim=1).split([12, 9, 8], dim=1)
    weights = [gradient for name, gradient in wanted.items() if name.endswith("weight")]
    biases = [gradient for name, gradient in wanted.items() if name.endswith("bias")]
    for a, b, weight, bias in zip(factors.slopes.split([9, 8, 7], dim=1), inputs, weights, biases, strict=True):
        torch.testing.assert_close(a[:, :, None] * b[:, None, :], weight)
        torch.testing.assert_close(a, bias)


@pytest.mark.parametrize("name", ["cnn[width=4]", "wrn[depth=10,width=1]", "alexnet"])
def test_norms_are_those_of_the_convolutions_gradients(name: str) -> None:
    network = made(name, (3, 32, 32))
    x, y = torch.rand(35, 3, 32, 32, generator=generator(1)), torch.arange(35) % 7
    factors, wanted = row_gradients(network, x, y), laid_out(network, x, y)
    linear = {f"{name}.weight" for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    maps = [gradient for name, gradient in wanted.items() if name.endswith("weight") and gradient.dim() == 5]
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in maps], dim=1)
    torch.testing.assert_close(factors.norms.sort(dim=1).values, norms.sort(dim=1).values, rtol=1e-3, atol=1e-6)
    assert not factors.given
    slope_column = input_column = 0
    for (inputs, units), name in zip(factors.sizes.tolist(), sorted(linear, key=list(wanted).index), strict=True):
        a, b = (
            factors.slopes[:, slope_column : slope_column + units],
            factors.inputs[:, input_column : input_column + inputs],
        )
        torch.testing.assert_close(a[:, :, None] * b[:, None, :], wanted[name], rtol=1e-3, atol=1e-6)
        slope_column, input_column = slope_column + units, input_column + inputs


def test_grouped_and_strided_convolutions_and_activations_in_place_are_no_trouble() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=1, groups=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 6, (3, 1), groups=3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(6 * 3 * 5, 7),
    )
    x, y = torch.rand(4, 4, 10, 10), torch.arange(4)
    wanted = laid_out(
        nn.Sequential(*(nn.ReLU() if isinstance(module, nn.ReLU) else module for module in network)), x, y
    )
    norms = torch.stack([wanted[f"{index}.weight"].flatten(1).norm(dim=1) for index in (0, 2)], dim=1)
    torch.testing.assert_close(row_gradients(network, x, y).norms, norms)


def test_layers_that_see_several_vectors_of_a_row_are_refused() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Flatten(), nn.Linear(6, 2))
    with pytest.raises(HarnessError, match="one vector for each row"):
        row_gradients(network, torch.rand(4, 2, 3), torch.zeros(4, dtype=torch.int64))


def test_kernels_answer_factors_as_the_gradient_laid_out() -> None:
    """Nasr et al. convolve the matrix of a layer's gradient with kernels that span the inputs of the layer."""
    kernels = nn.Linear(11, 5)
    inputs, slopes = torch.randn(8, 11, generator=generator(1)), torch.randn(8, 6, generator=generator(2))
    matrix = slopes[:, :, None] * inputs[:, None, :]
    by_convolution = F.conv2d(matrix[:, None], kernels.weight[:, None, None, :], kernels.bias)  # (8, 5, 6, 1)
    torch.testing.assert_close(convolved(kernels, inputs, slopes), by_convolution[..., 0].mT)


def test_the_outputs_that_an_attack_reads_are_the_probabilities() -> None:
    """Slopes of the last layer are probabilities less the one-hot label; the attack adds the label again."""
    network, x, y = made("mlp[hidden=[9,8],activation=tanh]", (12,)), torch.rand(6, 12), torch.arange(6)
    factors = row_gradients(network, x, y)
    attack, read = AllLayersNet(((12, 9), (9, 8), (8, 7)), norms=0, kernels=2, width=4), []
    attack.outputs.register_forward_pre_hook(lambda branch, inputs: read.append(inputs[0]))
    attack(torch.cat([x, factors.inputs], dim=1), factors.slopes, factors.norms, y)
    torch.testing.assert_close(read[0][:, :7], network(x).softmax(dim=1))
    torch.testing.assert_close(read[0][:, 7:14], F.one_hot(y, 7).float())

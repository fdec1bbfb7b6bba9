"""In `Undrawn`, networks are made without drawing weights, which are NaN until published ones are loaded."""

from functools import partial

import pytest
import torch
from torch import nn
from torchvision.models import alexnet, inception_v3, resnet18, vgg11

from imharness_vision.weights import Undrawn


@pytest.mark.parametrize("make", [alexnet, partial(inception_v3, init_weights=True), resnet18, vgg11])
def test_no_value_is_drawn_and_none_can_be_taken_for_a_weight(make: partial[nn.Module]) -> None:
    before = torch.get_rng_state()
    with Undrawn():
        network = make(weights=None)
    assert torch.equal(torch.get_rng_state(), before)
    kernels = [module.weight for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert kernels
    assert all(bool(kernel.isnan().all()) for kernel in kernels)
    drawn = nn.Linear(2, 2)
    assert not bool(drawn.weight.isnan().any())

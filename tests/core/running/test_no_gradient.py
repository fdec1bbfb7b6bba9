"""A target without a gradient says what to declare, where torch would only raise an error of its own."""

import pytest
import torch

from imharness.errors import ContractError
from imharness.running.target import MetricTarget


@pytest.mark.parametrize("how", ["detached", "constant"])
def test_a_score_without_a_gradient_is_refused_with_what_to_do(how: str) -> None:
    free = torch.ones(2, requires_grad=True)

    def score(images: torch.Tensor) -> torch.Tensor:
        return images.detach().mean(dim=(1, 2, 3)) if how == "detached" else free * 1

    target = MetricTarget(score, (0.0, 1.0), images=2, differentiable=True)
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    with pytest.raises(ContractError, match=r"no gradient reaches the images.*declare differentiable=False"):
        target(images)

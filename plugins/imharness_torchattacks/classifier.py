"""A metric as a classifier, which is what attacks of other libraries take."""

import torch
from torch import nn

from imharness.images import Images, Target


class TwoLogits(nn.Module):
    """What is attacked as a classifier of images ``(N, 3, H, W)``: logits ``(N, 2)`` of "low score" and "high score".

    With the score s, in units of its range from -1/2 to 1/2, the logits are -s and s. The cross-entropy of class 0 is
    log(1 + exp(2 s)), which grows with the score alone, and its gradient is the score's times a number in (1/4, 3/4)
    within the range: it does not vanish, as it would with logits of a size.
    """

    def __init__(self, target: Target, device: torch.device) -> None:
        super().__init__()
        self.target = target
        self.register_parameter("place", nn.Parameter(torch.zeros(0, device=device), requires_grad=False))

    def forward(self, images: Images) -> torch.Tensor:
        middle, span = (self.target.lower + self.target.upper) / 2, self.target.upper - self.target.lower
        scaled = (self.target(images) - middle) / span
        return torch.stack([-scaled, scaled], dim=1)

"""Adam and plain gradient descent with torch's fused kernels, without what `torch.optim` does around each of them.

One step of the small networks of this package takes a fraction of a millisecond. Hooks, groups of parameters by device
and one counter of steps for each parameter take a third of it more. The numbers are those of `torch.optim`, bit by bit,
where a parameter has a slope in all steps or in none: its first moments are scaled by the steps of all.
"""

from collections.abc import Iterable

import torch

BETAS, EPS = (0.9, 0.999), 1e-8
"""Of Adam (Kingma & Ba, ICLR 2015), as `torch.optim.Adam` has them by default."""


class Descent:
    """Changes parameters, all on one device, step by step so that losses fall.

    `learning_rate` may be changed between steps.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self._parameters = [own for own in parameters if own.requires_grad]

    def step(self, loss: torch.Tensor) -> None:
        """Go one step down the slope of a loss, a scalar; parameters without a slope stay as they are."""
        for own in self._parameters:
            own.grad = None
        loss.backward()
        with torch.no_grad():
            self._update([place for place, own in enumerate(self._parameters) if own.grad is not None])

    def _update(self, places: list[int]) -> None:
        """Change the parameters at these places by what their slopes say."""
        raise NotImplementedError


class Sgd(Descent):
    """Gradient descent without momentum."""

    def _update(self, places: list[int]) -> None:
        chosen = [self._parameters[place] for place in places]
        torch._fused_sgd_(
            chosen, [own.grad for own in chosen], [], weight_decay=self.weight_decay, momentum=0.0,
            lr=self.learning_rate, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
        )  # fmt: skip


class Adam(Descent):
    """Adam; `weight_decay` is added to the slope."""

    def __init__(self, parameters: Iterable[torch.Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, learning_rate, weight_decay)
        self._means, self._squares = ([torch.zeros_like(own) for own in self._parameters] for _ in range(2))
        self._steps = [torch.zeros((), device=own.device) for own in self._parameters[:1]]

    def _update(self, places: list[int]) -> None:
        self._steps[0] += 1
        chosen = [self._parameters[place] for place in places]
        torch._fused_adam_(
            chosen, [own.grad for own in chosen], [self._means[place] for place in places],
            [self._squares[place] for place in places], [], self._steps * len(places), amsgrad=False,
            lr=self.learning_rate, beta1=BETAS[0], beta2=BETAS[1], weight_decay=self.weight_decay, eps=EPS,
            maximize=False,
        )  # fmt: skip


KINDS = {"adam": Adam, "sgd": Sgd}
"""By the name that a training plan gives."""

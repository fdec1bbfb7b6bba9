"""Adam and plain gradient descent with torch's fused kernels, without the overhead of `torch.optim`.

One step of this package's small networks takes a fraction of a millisecond. Hooks, groups of parameters by device and
a step counter for each parameter would add a third to it. The numbers equal those of `torch.optim` bit by bit where a
parameter has a gradient in all steps or in none: the correction of the moments counts the steps of all parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch

BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's decay rates and epsilon (Kingma & Ba, ICLR 2015), the defaults of `torch.optim.Adam`."""


class Descent(ABC):
    """Gradient descent on parameters that are all on one device.

    `learning_rate` may be changed between steps.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]

    def step(self, loss: torch.Tensor) -> None:
        """Take one step down the gradient of a loss, a scalar; parameters without a gradient stay as they are."""
        for parameter in self._parameters:
            parameter.grad = None
        loss.backward()
        self._go()

    def follow(self, gradients: Iterable[torch.Tensor]) -> None:
        """Take one step down the given gradients, one for each parameter, in their order."""
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        self._go()

    def _go(self) -> None:
        with torch.no_grad():
            self._update([index for index, parameter in enumerate(self._parameters) if parameter.grad is not None])

    @abstractmethod
    def _update(self, places: list[int]) -> None:
        """Change the parameters with these indices by their gradients."""


class Sgd(Descent):
    """Gradient descent, with or without momentum: the velocity is the gradient plus `momentum` times the one before."""

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        learning_rate: float,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        super().__init__(parameters, learning_rate, weight_decay)
        self.momentum = momentum
        self._velocities = [torch.zeros_like(parameter) for parameter in self._parameters] if momentum else []

    def _update(self, places: list[int]) -> None:
        chosen = [self._parameters[index] for index in places]
        torch._fused_sgd_(
            chosen,
            [parameter.grad for parameter in chosen],
            [self._velocities[index] for index in places] if self.momentum else [],
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


class Adam(Descent):
    """Adam; `weight_decay` times the parameter is added to the gradient."""

    def __init__(self, parameters: Iterable[torch.Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, learning_rate, weight_decay)
        self._means, self._squares = ([torch.zeros_like(parameter) for parameter in self._parameters] for _ in range(2))
        self._steps = [torch.zeros((), device=parameter.device) for parameter in self._parameters[:1]]

    def _update(self, places: list[int]) -> None:
        self._steps[0] += 1
        chosen = [self._parameters[index] for index in places]
        torch._fused_adam_(
            chosen,
            [parameter.grad for parameter in chosen],
            [self._means[index] for index in places],
            [self._squares[index] for index in places],
            [],
            self._steps * len(places),
            amsgrad=False,
            lr=self.learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.weight_decay,
            eps=EPS,
            maximize=False,
        )

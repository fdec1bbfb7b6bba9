"""Networks of torchvision and timm by name, with weights from a file on this machine: nothing is downloaded."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from imharness.errors import Unavailable, UsageError
from imharness_vision.weights import Undrawn, frozen, weights_in

LIBRARIES = ("torchvision", "timm")
PROBED = 224
"""The side of the test image that finds the modules that give maps, px."""
EPS = 1e-10


def require(backbone: str, weights: str) -> None:
    """Raise `Unavailable` unless the library and the file of weights are here, `UsageError` for an unknown name."""
    library, _, name = backbone.partition("/")
    if library not in LIBRARIES or not name:
        raise UsageError(f"backbone: write torchvision/NAME or timm/NAME, got {backbone!r:.60}.")
    if library == "timm" and find_spec("timm") is None:
        raise Unavailable("the package timm is not installed", "pip install 'image-privacy-harness[timm]'")
    if not weights or not Path(weights).is_file():
        where = f"{weights} is not a file" if weights else "no file of weights is named"
        raise Unavailable(where, "save a state_dict with safetensors or torch.save, and name it: weights=FILE")


def network(backbone: str, weights: str, device: torch.device, **settings: int) -> nn.Module:
    """Return a network with the weights of a file, frozen; `settings` as its library takes them, such as num_classes.

    Raises `UsageError` where there is no such network, and `Unavailable` where the weights do not fit it.
    """
    library, _, name = backbone.partition("/")
    try:
        if library == "timm":
            from timm import create_model

            make = partial(create_model, name, pretrained=False)
        else:
            from torchvision.models import get_model

            make = partial(get_model, name, weights=None)
        with Undrawn():
            found = make(**settings)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"backbone: {library} has no network {name!r:.60}: {' '.join(str(error).split())}") from None
    try:
        found.load_state_dict(weights_in(Path(weights)), strict=True)
    except RuntimeError as error:
        told = " ".join(str(error).split())
        raise Unavailable(f"the weights in {weights} are not of {backbone}: {told:.200}", "name another file") from None
    return frozen(found, device)


class Stages(nn.Module):
    """The last maps ``(N, C, h, w)`` of each resolution below that of the image, from a network that has some.

    Raises `UsageError` for a network without maps, such as a plain transformer.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        last: dict[tuple[int, ...], nn.Module] = {}
        hooks = [
            module.register_forward_hook(lambda module, inputs, output: self._note(last, module, output))
            for module in network.modules()
            if module is not network
        ]
        place = next(network.parameters()).device
        with torch.no_grad():
            network(torch.zeros(1, 3, PROBED, PROBED, device=place))
        for hook in hooks:
            hook.remove()
        self._stages = list(last.values())
        if not self._stages:
            raise UsageError("backbone: this network gives no maps of an image; take a convolutional one.")

    @staticmethod
    def _note(last: dict[tuple[int, ...], nn.Module], module: nn.Module, output: object) -> None:
        if isinstance(output, torch.Tensor) and output.ndim == 4 and 1 < output.shape[-1] < PROBED:
            last[tuple(output.shape[2:])] = module

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor] = {}

        def keep(number: int):
            return lambda module, inputs, output: found.__setitem__(number, output)

        hooks = [module.register_forward_hook(keep(number)) for number, module in enumerate(self._stages)]
        try:
            self.network(images)
        finally:
            for hook in hooks:
                hook.remove()
        return [found[number] for number in range(len(self._stages))]


def distance(ours: list[torch.Tensor], others: list[torch.Tensor]) -> torch.Tensor:
    """Return the squared distance of unit feature vectors, averaged over places, summed over stages, ``(N,)``.

    Zhang et al., CVPR 2018, equation 1, with all weights 1.
    """
    parts = []
    for x, y in zip(ours, others, strict=True):
        unit = [m / (m.square().sum(dim=1, keepdim=True) + EPS).sqrt() for m in (x, y)]
        parts.append((unit[0] - unit[1]).square().sum(dim=1).mean(dim=(1, 2)))
    return torch.stack(parts).sum(dim=0)

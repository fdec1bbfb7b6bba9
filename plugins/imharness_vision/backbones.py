"""Networks of torchvision and timm by name, or from a file of your own, with weights from a file on this machine.

Nothing is downloaded. ``FILE.py:FUNCTION`` is a Python file with a function without arguments that returns a module of
images ``(N, 3, H, W)`` in [0, 1]; naming such a file runs it.
"""

import runpy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from imharness.errors import Unavailable, UsageError, unknown_name
from imharness_vision.weights import Undrawn, frozen, weights_in

LIBRARIES = ("torchvision", "timm")
PROBED = 224
"""The side of the test image that finds the modules that give maps, px."""
EPS = 1e-10


def require(backbone: str, weights: str) -> None:
    """Raise `Unavailable` unless the library and the file of weights are here, `UsageError` for an unknown name."""
    if is_own(backbone):
        if not Path(builder_file(backbone)).is_file():
            raise Unavailable(
                f"{builder_file(backbone)} is not a file", "name a Python file: backbone=FILE.py:FUNCTION"
            )
    else:
        library, _, name = backbone.partition("/")
        if library not in LIBRARIES or not name:
            raise UsageError(f"backbone: write torchvision/NAME, timm/NAME or FILE.py:FUNCTION, got {backbone!r:.60}.")
        if library == "timm" and find_spec("timm") is None:
            raise Unavailable("the package timm is not installed", "pip install 'image-privacy-harness[timm]'")
    if not weights or not Path(weights).is_file():
        where = f"{weights} is not a file" if weights else "no file of weights is named"
        raise Unavailable(where, "save a state_dict with safetensors or torch.save, and name it: weights=FILE")


def is_own(backbone: str) -> bool:
    """Return whether a name means a function of a Python file, ``FILE.py:FUNCTION``."""
    return backbone.rpartition(":")[0].endswith(".py")


def builder_file(backbone: str) -> str:
    """Return the file that a name means, "" for a network of a library."""
    return backbone.rpartition(":")[0] if is_own(backbone) else ""


def network(backbone: str, weights: str, device: torch.device, **settings: int) -> nn.Module:
    """Return a network with the weights of a file, frozen; `settings` as its library takes them, such as num_classes.

    Raises `UsageError` where there is no such network, and `Unavailable` where the weights do not fit it.
    """
    model = _built(backbone) if is_own(backbone) else _of_library(backbone, settings)
    try:
        model.load_state_dict(weights_in(Path(weights)), strict=True)
    except RuntimeError as error:
        message = " ".join(str(error).split())
        raise Unavailable(
            f"the weights in {weights} are not of {backbone}: {message:.200}", "name another file"
        ) from None
    return frozen(model, device)


def _of_library(backbone: str, settings: Mapping[str, int]) -> nn.Module:
    library, _, name = backbone.partition("/")
    try:
        if library == "timm":
            from timm import create_model

            make = partial(create_model, name, pretrained=False)
        else:
            from torchvision.models import get_model

            make = partial(get_model, name, weights=None)
        with Undrawn():
            return make(**settings)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"backbone: {library} has no network {name!r:.60}: {' '.join(str(error).split())}") from None


def _built(backbone: str) -> nn.Module:
    """Return what the function of a Python file builds; raises `UsageError` where the file has no such function."""
    file, _, name = backbone.rpartition(":")
    try:
        build: Callable[[], nn.Module] | None = runpy.run_path(file).get(name)
        model = build() if callable(build) else None
    except Exception as error:
        message = " ".join(str(error).split())
        raise UsageError(f"backbone: {backbone} fails: {type(error).__name__}: {message:.200}") from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"backbone: {file} needs a function {name} without arguments that returns a torch.nn.Module.")
    return model


class Stages(nn.Module):
    """A network that returns maps ``(N, C, h, w)``: of its `layers`, or else the last map of each resolution.

    Maps as large as the image are left out.

    Raises `UsageError` for a layer that is not there, and without layers for a network without maps, such as a plain
    transformer.
    """

    def __init__(self, network: nn.Module, layers: Sequence[str] = ()) -> None:
        super().__init__()
        self.network = network
        if layers:
            modules = dict(network.named_modules())
            for layer in layers:
                if not layer or layer not in modules:
                    named = [name for name in modules if name]
                    raise UsageError(unknown_name(f"layers: the network has no {layer!r:.60}", layer, named, "It has"))
            self._stages = [modules[layer] for layer in layers]
        else:
            self._stages = self._last_maps()

    def _last_maps(self) -> list[nn.Module]:
        """Return the last module of each resolution of maps, from a pass over a test image."""
        network = self.network
        last: dict[tuple[int, ...], nn.Module] = {}
        hooks = [
            module.register_forward_hook(lambda module, inputs, output: self._note(last, module, output))
            for module in network.modules()
            if module is not network
        ]
        device = next(network.parameters()).device
        with torch.no_grad():
            network(torch.zeros(1, 3, PROBED, PROBED, device=device))
        for hook in hooks:
            hook.remove()
        if not last:
            raise UsageError(
                "backbone: this network gives no maps of an image; take a convolutional one, or name its layers."
            )
        return list(last.values())

    @staticmethod
    def _note(last: dict[tuple[int, ...], nn.Module], module: nn.Module, output: object) -> None:
        """Remember a module as the last one of its resolution, if its output is maps smaller than the image."""
        if isinstance(output, torch.Tensor) and output.ndim == 4 and 1 < output.shape[-1] < PROBED:
            last[tuple(output.shape[2:])] = module

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        features: dict[int, torch.Tensor] = {}

        def recorder(number: int):
            """Return a hook that records the output of a stage."""

            def record(module: nn.Module, inputs: tuple, output: torch.Tensor) -> None:
                features[number] = output

            return record

        hooks = [module.register_forward_hook(recorder(number)) for number, module in enumerate(self._stages)]
        try:
            self.network(images)
        finally:
            for hook in hooks:
                hook.remove()
        maps = [features.get(number) for number in range(len(self._stages))]
        if not all(isinstance(m, torch.Tensor) and m.ndim == 4 for m in maps):
            raise UsageError("layers: each must give one tensor (N, C, h, w) whenever the network sees images.")
        return maps


def distance(ours: list[torch.Tensor], others: list[torch.Tensor]) -> torch.Tensor:
    """Return the squared distance of unit feature vectors, averaged over places, summed over stages, ``(N,)``.

    Zhang et al., CVPR 2018, equation 1, with all weights 1.
    """
    distances = []
    for x, y in zip(ours, others, strict=True):
        unit = [m / (m.square().sum(dim=1, keepdim=True) + EPS).sqrt() for m in (x, y)]
        distances.append((unit[0] - unit[1]).square().sum(dim=1).mean(dim=(1, 2)))
    return torch.stack(distances).sum(dim=0)

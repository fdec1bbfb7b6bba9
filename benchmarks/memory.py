"""How much memory the networks of the profile `official` take, by layer, and how many images fit into 24, 40 and 80 GB.

    python -m benchmarks.memory

Nothing is computed and no weights are read: networks of the real shapes run on tensors that hold no numbers
(`torch._subclasses.FakeTensorMode`), forward and back, and forward on a simulated GPU, where mixed devices raise. Every
storage is counted from its allocation until it is freed, so that the peak is exact but for what libraries take for
themselves: workspaces of cuDNN, and fragments. `SPARE` of a GPU is left to them.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchvision.models import densenet121, resnet18, vgg16

from imharness.cli import console
from imharness_iqa.metrics.koncept512 import KonCeptNet
from imharness_iqa.metrics.linearity import LinearityNet
from imharness_membership.models.wrn import _network as wide_residual
from imharness_vision.diffusion import GuidedUNet

GPU = torch.device("cuda:0")
FAKE = FakeTensorMode()
"""One for all: networks keep tables from one call to the next, which belong to it."""
GB = 1e9
CARDS = (24, 40, 80)
"""The sizes of GPUs, GB."""
SPARE = 0.15
"""The share of a GPU that is not counted on."""
SIDES = (384, 512)
"""Height and width of the images of KonIQ-10k and KADID-10k, px."""


@dataclass
class Live(TorchDispatchMode):
    """Counts the bytes of all storages that were allocated within, and not freed yet; `where`: layer -> its bytes."""

    bytes: int = 0
    peak: int = 0
    layer: str = ""
    where: Counter[str] = field(default_factory=Counter)
    at_peak: Counter[str] = field(default_factory=Counter)
    _known: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return found

    def _hold(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._known:
            return
        self._known.add(place)
        self.bytes += size
        self.where[self.layer] += size
        weakref.finalize(storage, self._free, place, size, self.layer)
        if self.bytes > self.peak:
            self.peak, self.at_peak = self.bytes, Counter(self.where)

    def _free(self, place: int, size: int, layer: str) -> None:
        self._known.discard(place)
        self.bytes -= size
        self.where[layer] -= size


@contextmanager
def named_layers(network: nn.Module, live: Live) -> Iterator[None]:
    """Let `live` know which layer, two names deep, allocates."""
    hooks = []
    for name, module in network.named_modules():
        short = ".".join(name.split(".")[:2])
        if name and not list(module.children()):
            hooks.append(module.register_forward_pre_hook(lambda *_, short=short: setattr(live, "layer", short)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class Cost:
    """Bytes: of the weights, and of everything at the peak; `layers`: the layers that hold most of it then."""

    weights: int
    peak: int
    layers: dict[str, int]


@dataclass(frozen=True)
class Network:
    """A network, how it is called, the shape of an image, and whether it is trained.

    Attacks need the gradient of an image, training that of the weights.
    """

    make: Callable[[], nn.Module]
    image: tuple[int, ...]
    call: Callable[[nn.Module, torch.Tensor], torch.Tensor] = lambda network, images: network(images)
    trains: bool = False

    def cost(self, images: int) -> Cost:
        """Return the memory of a pass forward and back."""
        with FAKE:
            network = self.make().train(self.trains).requires_grad_(self.trains)
            batch = torch.empty((images, *self.image), requires_grad=not self.trains)
            weights = sum(own.untyped_storage().nbytes() for own in (*network.parameters(), *network.buffers()))
            live = Live()
            with named_layers(network, live), live:
                found = self.call(network, batch)
                live.layer = "backward"
                found.float().sum().backward()
        peak = live.peak + weights + batch.untyped_storage().nbytes()
        return Cost(weights, peak, dict(live.at_peak.most_common(3)))

    def runs_on_gpu(self) -> bool:
        """Run a pass forward on a simulated GPU, and say whether the result is there; mixed devices raise."""
        with FAKE, torch.no_grad():
            with GPU:
                network = self.make().eval()
            found = self.call(network, torch.empty((2, *self.image), device=GPU))
        return found.device == GPU

    def fits(self, gigabytes: float) -> int:
        """Return the largest power of two of images that fit into a GPU, or 0; peaks grow linearly with images."""
        two, three = self.cost(2).peak, self.cost(3).peak  # batch normalisation is trained with at least two
        each = three - two
        most = int((gigabytes * GB * (1 - SPARE) - (two - 2 * each)) // each)
        return 1 << most.bit_length() - 1 if most >= 1 else 0


def _steps(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Pass images through DiffPure's network once; its steps follow each other, and gradients need all of them."""
    return network(images, torch.full((len(images),), 5.0, device=images.device))


def _wide() -> nn.Module:
    return wide_residual(3, 100, blocks=4, width=2)


NETWORKS = {
    "koncept512": Network(KonCeptNet, (3, *SIDES)),
    "linearity": Network(LinearityNet, (3, *SIDES)),
    "diffpure, one step": Network(GuidedUNet, (3, 256, 256), _steps),
    "lpips on vgg16": Network(lambda: vgg16().features, (3, 256, 256)),
    "training koncept512": Network(KonCeptNet, (3, *SIDES), trains=True),
    "training densenet121, 32 px": Network(densenet121, (3, 32, 32), trains=True),
    "training wrn-28-2, 32 px": Network(_wide, (3, 32, 32), trains=True),
    "training resnet18, 32 px": Network(resnet18, (3, 32, 32), trains=True),
}


def main() -> None:
    """Print a table."""
    rows = []
    for name, network in NETWORKS.items():
        one = network.cost(16)
        sizes = [str(network.fits(card)) for card in CARDS]
        layers = ", ".join(f"{layer} {size / GB:.1f}" for layer, size in one.layers.items())
        there = "yes" if network.runs_on_gpu() else "NO"
        rows.append((name, there, f"{one.weights / GB:.2f}", f"{one.peak / GB:.1f}", layers, *sizes))
    names = ["network", "on a GPU", "weights, GB", "16 images, GB", "of it, most", *(f"{card} GB" for card in CARDS)]
    console.table("Memory of passes forward and back, and images that fit into a GPU", names, rows)


if __name__ == "__main__":
    main()

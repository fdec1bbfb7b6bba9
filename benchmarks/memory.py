"""How much memory the networks of the profile `official` take, by layer, and how many images fit into 24, 40 and 80 GB.

    python -m benchmarks memory                    # predicted, without a GPU
    python -m benchmarks memory --device cuda      # beside it what is measured, in at most four minutes

For the prediction nothing is computed and no weights are read: networks of the real shapes run on tensors that hold no
numbers (`torch._subclasses.FakeTensorMode`), forward and back, and forward on a simulated GPU, where mixed devices
raise. Every storage is counted from its allocation until it is freed, so that the peak is exact but for what libraries
take for themselves: workspaces of cuDNN, and fragments. `SPARE` of a GPU is left to them.
"""

import copy
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.networks import CATALOGUE, Network
from imharness.cli import console
from imharness.errors import Unavailable

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
FAKE = FakeTensorMode(allow_non_fake_inputs=True)
"""One for all: networks keep tables from one call to the next, which belong to it."""
GB = 1e9
CARDS = (24, 40, 80)
"""The sizes of GPUs, GB."""
SPARE = 0.15
"""The share of a GPU that is not counted on."""


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
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return output

    def know(self, *tensors: torch.Tensor) -> None:
        """Leave out what was there before, of which views are made within."""
        self._known |= {tensor.untyped_storage()._cdata for tensor in tensors}

    def _hold(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        if address in self._known:
            return
        self._known.add(address)
        self.bytes += size
        self.where[self.layer] += size
        weakref.finalize(storage, self._free, address, size, self.layer)
        if self.bytes > self.peak:
            self.peak, self.at_peak = self.bytes, Counter(self.where)

    def _free(self, address: int, size: int, layer: str) -> None:
        self._known.discard(address)
        self.bytes -= size
        self.where[layer] -= size


@contextmanager
def named_layers(network: nn.Module, live: Live) -> Iterator[None]:
    """Let `live` know which layer, two names deep, allocates; what follows the last one is "backward"."""
    hooks = [network.register_forward_hook(lambda *_: setattr(live, "layer", "backward"))]
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
    """Bytes: of the weights, and of everything at the peak; `layers`: the layers that hold most of it then.

    `operations`: two for each multiplication with its sum, for one image.
    """

    weights: int
    peak: int
    layers: dict[str, int]
    operations: float


def faked(network: nn.Module, device: torch.device = CPU) -> nn.Module:
    """Return a copy of a network whose weights hold no numbers."""
    copies = dict[int, torch.Tensor]()
    with FAKE:
        for tensor in (*network.parameters(), *network.buffers()):
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
            copies[id(tensor)] = (
                nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
            )
    return copy.deepcopy(network, copies)


def cost(network: Network, images: int, *, back: bool = True, module: nn.Module | None = None) -> Cost:
    """Return the memory and the operations of a step, or of a pass forward alone; `module`: a network without
    numbers."""
    module = faked(network.made()) if module is None else module
    with FAKE:
        batch = network.inputs(images)
        tensors = [*module.parameters(), *module.buffers()]
        weights = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        live, counter = Live(), FlopCounterMode(display=False)
        live.know(batch, *tensors)
        with named_layers(module, live), counter, live:
            (network.step if back else network.forward)(module, batch)
        for parameter in module.parameters():
            parameter.grad = None
    peak = live.peak + weights + batch.untyped_storage().nbytes()
    return Cost(weights, peak, dict(live.at_peak.most_common(3)), counter.get_total_flops() / images)


def runs_on_gpu(network: Network, module: nn.Module | None = None) -> bool:
    """Run a pass forward on a simulated GPU, and say whether the result is there; mixed devices raise."""
    module = faked(network.made() if module is None else module, GPU)
    with FAKE:
        output = network.forward(module, network.inputs(2, GPU))
    return output.device == GPU


def fits(network: Network, gigabytes: float, module: nn.Module | None = None) -> int:
    """Return the largest power of two of images that fit into a GPU, or 0; peaks grow linearly with images."""
    module = faked(network.made()) if module is None else module
    two, three = (
        cost(network, n, module=module).peak for n in (2, 3)
    )  # batch normalisation is trained with at least two
    each = three - two
    most = int((gigabytes * GB * (1 - SPARE) - (two - 2 * each)) // each)
    return 1 << most.bit_length() - 1 if most >= 1 else 0


def predict(names: Sequence[str]) -> None:
    """Print what is predicted for networks of the catalogue."""
    rows = list[tuple[object, ...]]()
    for name in names:
        try:
            rows.append((name, *_predicted(CATALOGUE[name])))
        except Unavailable as error:
            rows.append((name, str(error), *[""] * (4 + len(CARDS))))
    heads = ["network", "on a GPU", "weights, GB", "images", "GB", "of it, most", *(f"{card} GB" for card in CARDS)]
    console.table("Memory of a step, and images that fit into a GPU", heads, rows)


def _predicted(network: Network) -> tuple[object, ...]:
    real = network.made()
    module = faked(real)
    one = cost(network, network.batch, module=module)
    layers = ", ".join(f"{layer} {size / GB:.1f}" for layer, size in one.layers.items())
    there = "yes" if runs_on_gpu(network, real) else "NO"
    sizes = (str(fits(network, card, module)) for card in CARDS)
    return there, f"{one.weights / GB:.2f}", network.batch, f"{one.peak / GB:.1f}", layers, *sizes

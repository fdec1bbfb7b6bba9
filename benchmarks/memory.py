"""How much memory the networks of the profile `official` take, by layer, and how many images fit into 24, 40 and 80 GB.

    python -m benchmarks memory                    # predicted, without a GPU
    python -m benchmarks memory --device cuda      # predicted and measured, in at most four minutes

The prediction computes nothing and reads no weights: networks of the real shapes run forward and backward on tensors
without numbers (`torch._subclasses.FakeTensorMode`). They also run forward on a simulated GPU, which raises an error if
tensors of two devices meet. Every storage is counted from its allocation until it is freed. The predicted peak is
therefore exact, except for the workspaces of cuDNN and for fragmentation; `SPARE` of a GPU is left to these.
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
"""The mode in which tensors hold no numbers. There is only one, because networks keep tensors of it between calls."""
GB = 1e9
CARDS = (24, 40, 80)
"""The sizes of GPUs, GB."""
SPARE = 0.15
"""The share of a GPU that is not counted on."""


@dataclass
class Live(TorchDispatchMode):
    """Counts the bytes of all storages that are allocated while the mode is active, until each of them is freed.

    Attributes:
        bytes: the bytes that are allocated now.
        peak: the largest number of bytes so far.
        layer: the layer that allocates now; see `named_layers`.
        by_layer: layer -> the bytes that it has allocated and that are not freed.
        at_peak: `by_layer` at the time of the peak.
    """

    bytes: int = 0
    peak: int = 0
    layer: str = ""
    by_layer: Counter[str] = field(default_factory=Counter)
    at_peak: Counter[str] = field(default_factory=Counter)
    _counted: set[int] = field(default_factory=set)
    """The addresses of storages that are counted already, or that are not to be counted."""

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return output

    def leave_out(self, *tensors: torch.Tensor) -> None:
        """Do not count the storages of tensors that exist before the mode is active, when views of them are made."""
        self._counted |= {tensor.untyped_storage()._cdata for tensor in tensors}

    def _count(self, storage: torch.UntypedStorage) -> None:
        """Count a storage once, until it is freed."""
        address, size = storage._cdata, storage.nbytes()
        if address in self._counted:
            return
        self._counted.add(address)
        self.bytes += size
        self.by_layer[self.layer] += size
        weakref.finalize(storage, self._free, address, size, self.layer)
        if self.bytes > self.peak:
            self.peak, self.at_peak = self.bytes, Counter(self.by_layer)

    def _free(self, address: int, size: int, layer: str) -> None:
        self._counted.discard(address)
        self.bytes -= size
        self.by_layer[layer] -= size


@contextmanager
def named_layers(network: nn.Module, live: Live) -> Iterator[None]:
    """Set `live.layer` while a network runs: to the first two parts of a layer's name, such as ``layer1.0``.

    After the whole network has run forward, it is "backward".
    """
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
    """What a step with a network costs.

    Attributes:
        weights: bytes of the weights.
        peak: bytes of everything at the peak, the weights and the images among it.
        layers: the three layers with the most bytes at the peak -> their bytes.
        operations: floating-point operations for one image; a multiplication and its addition are two.
    """

    weights: int
    peak: int
    layers: dict[str, int]
    operations: float


def faked(network: nn.Module, device: torch.device = CPU) -> nn.Module:
    """Return a copy of a network whose weights hold no numbers."""
    without_numbers = dict[int, torch.Tensor]()  # id of a tensor -> what `deepcopy` takes for its copy
    with FAKE:
        for tensor in (*network.parameters(), *network.buffers()):
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
            is_parameter = isinstance(tensor, nn.Parameter)
            without_numbers[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
    return copy.deepcopy(network, without_numbers)


def cost(network: Network, images: int, *, back: bool = True, module: nn.Module | None = None) -> Cost:
    """Return the memory and the operations of a step with so many images.

    Args:
        network: the network.
        images: the number of images of the step.
        back: whether it is a whole step; otherwise only a pass forward.
        module: what `faked` returns for the network; by default it is made anew.
    """
    module = faked(network.made()) if module is None else module
    with FAKE:
        batch = network.inputs(images)
        tensors = [*module.parameters(), *module.buffers()]
        weights = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        live, counter = Live(), FlopCounterMode(display=False)
        live.leave_out(batch, *tensors)
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
    """Return the largest power of two of images whose step fits into a GPU, or 0 if not even one fits.

    The peak is linear in the number of images: it is computed for two and for three of them. (Batch normalisation
    cannot be trained with one.)
    """
    module = faked(network.made()) if module is None else module
    peak_of_two, peak_of_three = (cost(network, images, module=module).peak for images in (2, 3))
    per_image = peak_of_three - peak_of_two
    fixed = peak_of_two - 2 * per_image
    most = int((gigabytes * GB * (1 - SPARE) - fixed) // per_image)
    return 2 ** (most.bit_length() - 1) if most >= 1 else 0


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
    """Return the cells of a row of the table, without the name."""
    real = network.made()
    module = faked(real)
    one = cost(network, network.batch, module=module)
    layers = ", ".join(f"{layer} {size / GB:.1f}" for layer, size in one.layers.items())
    there = "yes" if runs_on_gpu(network, real) else "NO"
    sizes = (str(fits(network, card, module)) for card in CARDS)
    return there, f"{one.weights / GB:.2f}", network.batch, f"{one.peak / GB:.1f}", layers, *sizes

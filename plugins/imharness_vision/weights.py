"""Published weights, opened as tensors only: no code in a file is run."""

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

from imharness.errors import Unavailable, UsageError
from imharness.files import GIB, read_tensors, read_torch
from imharness.images import Asset

COUNTER = "num_batches_tracked"
"""The step counter of batch norms; files that were written before torch 0.4.1 lack it."""
UNPACKED = 4 * GIB
"""The most that a member of an archive may hold; zipfile reads no more than the archive says."""
SHOWN = 3
"""The number of names that do not fit that a message lists."""
_DRAWN = frozenset({torch.Tensor.normal_, torch.Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_})


class Undrawn(TorchFunctionMode):
    """Networks that are made inside the block draw no initial values, for published weights are to replace them all.

    Drawing takes longer than loading: 1.7 s for VGG-16. Values that nothing replaces are NaN, so that they are noticed.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func not in _DRAWN:
            return func(*args, **(kwargs or {}))
        with torch.no_grad():
            return (args[0] if args else (kwargs or {})["tensor"]).fill_(torch.nan)


def state_dict(asset: Asset, *path: str) -> dict[str, torch.Tensor]:
    """Return the tensors of an asset by name, without the prefix of data-parallel training.

    `path`: keys that lead to the tensors inside the file. Raises `Unavailable` when the file is absent or is not a
    mapping of tensors.
    """
    return _tensors(asset.path(), path, f"replace it, from {asset.source}")


def weights_in(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file by name, safetensors or torch's format; raises `Unavailable` where it has none."""
    remedy = "name another file"
    if file.suffix == ".safetensors":
        try:
            return read_tensors(file)
        except UsageError as error:
            raise Unavailable(str(error), remedy) from None
    tensors = _tensors(file, (), remedy)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise Unavailable(f"{file} holds more than weights", remedy)
    return tensors


@contextmanager
def unpacked(asset: Asset, *members: str) -> Iterator[Path]:
    """Give the first of some members of a zip archive as a file; raises `Unavailable` where it has none of them."""
    remedy = f"replace it, from {asset.source}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(asset.path()) as archive:
                member_names = [name for name in members if name in archive.namelist()]
                if not member_names:
                    raise Unavailable(f"{asset.path()} holds no {members[0]}", remedy)
                file = Path(folder) / Path(member_names[0]).name
                if archive.getinfo(member_names[0]).file_size > UNPACKED:
                    raise Unavailable(
                        f"{asset.path()} holds {member_names[0]} of more than {UNPACKED // GIB} GiB", remedy
                    )
                with archive.open(member_names[0]) as packed, file.open("wb") as opened:
                    shutil.copyfileobj(packed, opened)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            # RuntimeError is what zipfile raises for an encrypted member, NotImplementedError for a compression
            raise Unavailable(f"{asset.path()} is not a readable zip archive: {error}", remedy) from None
        yield file


def fill(
    network: torch.nn.Module, asset: Asset, tensors: Mapping[str, torch.Tensor], unused: Sequence[str] = ()
) -> None:
    """Put the tensors of an asset into a network; raises `Unavailable` in one line where names or shapes differ.

    The counters of batch norms may be absent: no network reads them in evaluation mode.

    `unused`: beginnings of the names of tensors that the file has for layers which the network does without.
    """
    wanted = network.state_dict()
    tensors = {name: t for name, t in tensors.items() if name in wanted or not name.startswith(tuple(unused))}
    absent = sorted(name for name in wanted.keys() - tensors.keys() if not name.endswith(COUNTER))
    further = sorted(tensors.keys() - wanted.keys())
    other = [
        name for name in wanted.keys() & tensors.keys() if getattr(tensors[name], "shape", None) != wanted[name].shape
    ]
    wrong = [*(f"lacks {name}" for name in absent), *(f"has {name} too" for name in further)]
    for name in sorted(other):
        shape = getattr(tensors[name], "shape", None)
        wrong.append(f"has {name} {'of no shape' if shape is None else tuple(shape)} for {tuple(wanted[name].shape)}")
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        reason = f"{asset.path()} holds other weights than {asset.name}: {', '.join(wrong[:SHOWN])}{more}"
        raise Unavailable(reason, f"replace it, from {asset.source}")
    network.load_state_dict(tensors, strict=True)


def _tensors(file: Path, path: tuple[str, ...], remedy: str) -> dict[str, torch.Tensor]:
    try:
        tensors = read_torch(file)
    except UsageError as error:
        raise Unavailable(str(error), remedy) from None
    for key in path:
        tensors = tensors[key] if isinstance(tensors, Mapping) and key in tensors else None
    if not isinstance(tensors, Mapping):
        raise Unavailable(f"{file} contains no weights", remedy)
    return {str(name).removeprefix("module."): tensor for name, tensor in tensors.items()}


def folded(network: torch.nn.Module) -> torch.nn.Module:
    """Return a network of torchvision's kind whose batch norms are part of the convolutions before them."""
    from torch.fx.experimental.optimization import fuse

    return fuse(network.eval())


def frozen(network: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Return the network on a device, in evaluation mode, its parameters without gradients."""
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)

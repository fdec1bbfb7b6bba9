"""Published weights, opened as tensors only: no code in a file is run."""

from collections.abc import Mapping
from pathlib import Path

import torch

from imharness.images import Asset, Unavailable


def state_dict(asset: Asset, *path: str) -> dict[str, torch.Tensor]:
    """Return the tensors of an asset by name, without the prefix of data-parallel training.

    `path`: keys that lead to the tensors inside the file. Raises `Unavailable` when the file is absent or is no
    mapping of tensors.
    """
    return _tensors(asset.path(), path, f"replace it, from {asset.source}")


def weights_in(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file by name, safetensors or torch's format; raises `Unavailable` where it has none."""
    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(file)
    return _tensors(file, (), "name another file")


def _tensors(file: Path, path: tuple[str, ...], remedy: str) -> dict[str, torch.Tensor]:
    found = torch.load(file, map_location="cpu", weights_only=True)
    for key in path:
        found = found[key] if isinstance(found, Mapping) and key in found else None
    if not isinstance(found, Mapping):
        raise Unavailable(f"{file} holds no weights", remedy)
    return {str(name).removeprefix("module."): tensor for name, tensor in found.items()}


def folded(network: torch.nn.Module) -> torch.nn.Module:
    """Return a network of torchvision's kind whose batch norms are part of the convolutions before them."""
    from torch.fx.experimental.optimization import fuse

    return fuse(network.eval())


def frozen(network: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Return the network on a device, in evaluation mode, its parameters without gradients."""
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)

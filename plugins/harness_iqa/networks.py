"""The two small quality networks whose weights ship with this package."""

import json
from importlib.resources import files

import torch
import torch.nn.functional as F
from safetensors.torch import load
from torch import nn


class ConvQuality(nn.Module):
    """Five strided convolutions, then mean and standard deviation of each map: images ``(N, 3, H, W)`` -> ``(N,)``."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 48, 64, 96)) -> None:
        super().__init__()
        ins = (3, *widths[:-1])
        self.layers = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in zip(ins, widths, strict=True))
        self.head = nn.Sequential(nn.Linear(2 * widths[-1], 32), nn.SiLU(), nn.Linear(32, 1))
        _initialise(self)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = _detail(images)
        for layer in self.layers:
            x = F.silu(layer(x))
        return self.head(_pooled(x)).flatten()


class ResidualQuality(nn.Module):
    """Three stages of two residual blocks, then mean and standard deviation of each map."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 5, 2, 2)
        ins = (widths[0], *widths[:-1])
        self.down = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in zip(ins, widths, strict=True))
        self.blocks = nn.ModuleList(nn.ModuleList(_Block(w) for _ in range(2)) for w in widths)
        self.head = nn.Sequential(nn.Linear(2 * widths[-1], 32), nn.SiLU(), nn.Linear(32, 1))
        _initialise(self)
        for block in (block for stage in self.blocks for block in stage):
            nn.init.zeros_(block.second.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.stem(_detail(images)))
        for down, blocks in zip(self.down, self.blocks, strict=True):
            x = F.silu(down(x))
            for block in blocks:
                x = block(x)
        return self.head(_pooled(x)).flatten()


class _Block(nn.Module):
    """Two convolutions around a shortcut; it starts as the identity, so that no normalisation is needed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, 1, 1)
        self.second = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.silu(self.first(F.silu(x))))


def _initialise(network: nn.Module) -> None:
    """He initialisation: there is no normalisation that would repair the scale of the layers."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)


def _detail(images: torch.Tensor) -> torch.Tensor:
    """Return what a 5x5 box filter takes away, amplified: distortions live there, content mostly does not."""
    padded = F.pad(images, [2] * 4, mode="reflect")
    return 8 * (images - F.avg_pool2d(F.avg_pool2d(padded, (5, 1), 1), (1, 5), 1))


def _pooled(maps: torch.Tensor) -> torch.Tensor:
    flat = maps.flatten(2)
    deviation = (flat.var(dim=2, unbiased=False) + 1e-6).sqrt()
    return torch.cat([flat.mean(dim=2), deviation], dim=1)


def trained(network: nn.Module, stem: str, device: torch.device) -> nn.Module:
    """Return the network with the weights of this package, frozen, in evaluation mode."""
    network.load_state_dict(load((files("harness_iqa.weights") / f"{stem}.safetensors").read_bytes()), strict=True)
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)


def card(stem: str) -> dict[str, float]:
    """Return the model card of the weights in this package."""
    return json.loads((files("harness_iqa.weights") / f"{stem}.json").read_text())

"""The three small quality networks whose weights ship with this package, and how weights are loaded."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import torch
import torch.nn.functional as F
from safetensors.torch import load
from torch import nn

from imharness.data import Asset
from imharness.errors import Unavailable
from imharness.training import TuningPlan
from imharness_vision.weights import fill, frozen, state_dict

TUNING = TuningPlan(
    train="harness/severity-ladder[per_photograph=8,split=train]",
    test="harness/severity-ladder",
    epochs=3,
    learning_rate=1e-3,
)
"""How training defenses train these networks further: for fewer epochs, on fewer images than published."""
Backbone = Literal["published", "embedded"]
"""The weights of a method's authors, or those of this package: a smaller network of the same kind."""


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


class TransformerQuality(nn.Module):
    """A convolutional stem of 8x8 px, three transformer layers without positions, mean and deviation of the tokens.

    Dosovitskiy et al., "An Image is Worth 16x16 Words" (ICLR 2021), with the convolutional stem of Xiao et al. (NeurIPS
    2021).
    """

    def __init__(self, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        ins = (3, width // 4, width // 2)
        outs = (*ins[1:], width)
        self.stem = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in zip(ins, outs, strict=True))
        self.layers = nn.ModuleList(_Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(2 * width, 32), nn.SiLU(), nn.Linear(32, 1))
        _initialise(self)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = _detail(images)
        for layer in self.stem:
            x = F.silu(layer(x))
        tokens = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(_pooled(self.norm(tokens).transpose(1, 2)[..., None])).flatten()


class _Layer(nn.Module):
    """Self-attention and a perceptron, each behind a layer norm and beside a shortcut."""

    HEADS = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        projections = self.qkv(self.first(x)).view(n, length, 3, self.HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*projections).transpose(1, 2).reshape(n, length, width)
        x = x + self.out(mixed)
        return x + self.perceptron(self.second(x))


class _Block(nn.Module):
    """A shortcut around two convolutions; it starts as the identity, so that no normalisation is needed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, 1, 1)
        self.second = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.silu(self.first(F.silu(x))))


def _initialise(network: nn.Module) -> None:
    """Initialise as He et al., because the networks have no normalisation that would correct the scale of layers."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)


class _Detail(torch.autograd.Function):
    """The detail that a 5x5 box filter removes, times 8, with its gradient; borders are mirrored.

    The map is linear, so its gradient is its adjoint, which adds up what the mirrored border got.
    """

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, images: torch.Tensor) -> torch.Tensor:
        return 8 * images - (8 / 25) * _box_sums(F.pad(images, [2] * 4, mode="reflect"))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, upstream: torch.Tensor) -> torch.Tensor:
        spread = _box_sums(F.pad(upstream, [4] * 4))
        return 8 * upstream - (8 / 25) * torch.ops.aten.reflection_pad2d_backward(spread, upstream, [2] * 4)


def _box_sums(images: torch.Tensor) -> torch.Tensor:
    """Return the sums of all 5x5 windows: ``(N, C, H, W)`` -> ``(N, C, H - 4, W - 4)``.

    A sum of five neighbours is that of two pairs and one more.
    """
    height, width = images.shape[2] - 4, images.shape[3] - 4
    two = images[:, :, :-1] + images[:, :, 1:]
    rows = (two[:, :, :height] + two[:, :, 2 : height + 2]).add_(images[:, :, 4:])
    two = rows[..., :-1] + rows[..., 1:]
    return (two[..., :width] + two[..., 2 : width + 2]).add_(rows[..., 4:])


def _detail(images: torch.Tensor) -> torch.Tensor:
    """Return the detail that a 5x5 box filter removes, amplified; it holds distortions and little of the content."""
    return _Detail.apply(images)


def _pooled(maps: torch.Tensor) -> torch.Tensor:
    flat = maps.flatten(2)
    deviation = (flat.var(dim=2, unbiased=False) + 1e-6).sqrt()
    return torch.cat([flat.mean(dim=2), deviation], dim=1)


def trained(network: nn.Module, stem: str, device: torch.device) -> nn.Module:
    """Return the network with the weights of this package, frozen, in evaluation mode."""
    network.load_state_dict(load((files("imharness_iqa.weights") / f"{stem}.safetensors").read_bytes()), strict=True)
    return frozen(network, device)


def loaded(
    network: nn.Module,
    backbone: Backbone,
    stem: str,
    asset: Asset,
    *path: str,
    device: torch.device,
    unused: Sequence[str] = (),
) -> nn.Module:
    """Return a network, frozen: with the weights `stem` of this package, or with published ones.

    `path`: keys that lead to the tensors inside the published file. `unused`: as in `fill`.
    """
    if backbone == "embedded":
        return trained(network, stem, device)
    fill(network, asset, state_dict(asset, *path), unused)
    return frozen(network, device)


def restorer(weights: dict[str, torch.Tensor], asset: Asset, architecture: str) -> nn.Module:
    """Return the network of the package spandrel that weights belong to.

    Raises `Unavailable` in one line where they belong to none, or to one of another architecture.
    """
    from spandrel import ModelLoader

    try:
        descriptor = ModelLoader().load_from_state_dict(weights)
        reason = "" if descriptor.architecture.id == architecture else f"they are {descriptor.architecture.id}'s"
    except Exception as error:  # each architecture of the package raises errors of its own for weights that do not fit
        reason = " ".join(str(error).split())[:200] or type(error).__name__
    if reason:
        raise Unavailable(
            f"{asset.path()} holds no weights of {architecture}: {reason}", f"replace it, from {asset.source}"
        )
    return descriptor.model


def card(stem: str) -> dict[str, float]:
    """Return the model card of the weights in this package."""
    return json.loads((files("imharness_iqa.weights") / f"{stem}.json").read_text(encoding="utf-8"))

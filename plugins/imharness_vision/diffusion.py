"""Denoising diffusion: the schedule, the reverse step, and the U-Net of guided diffusion.

Ho, Jain & Abbeel, "Denoising Diffusion Probabilistic Models" (NeurIPS 2020), equations 4, 6, 7 and 11; Dhariwal &
Nichol, "Diffusion Models Beat GANs on Image Synthesis" (NeurIPS 2021), the network; learned variances as Nichol &
Dhariwal (ICML 2021), equation 15.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

Denoiser = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Noisy images ``(N, C, H, W)`` in about [-1, 1] and steps ``(N,)`` -> the noise, with C or 2 C channels."""


class Schedule:
    """The noise of each step; step t of 0, 1, ... T - 1 adds noise of variance ``betas[t]``.

    All attributes are float64 ``(T,)``: `alpha_bar` is the share of the image's variance that is left after each step;
    `variance`, `from_image` and `from_noisy` are variance and factors of the reverse step (equations 6 and 7).
    """

    def __init__(self, betas: torch.Tensor) -> None:
        self.betas = betas.double()
        self.alpha_bar = torch.cumprod(1 - self.betas, 0)
        before = torch.cat([self.alpha_bar.new_ones(1), self.alpha_bar[:-1]])
        self.variance = self.betas * (1 - before) / (1 - self.alpha_bar)
        self.from_image = self.betas * before.sqrt() / (1 - self.alpha_bar)
        self.from_noisy = (1 - before) * (1 - self.betas).sqrt() / (1 - self.alpha_bar)

    @classmethod
    def linear(cls, steps: int = 1000, first: float = 1e-4, last: float = 0.02) -> "Schedule":
        """Return the linear schedule of the papers."""
        return cls(torch.linspace(first, last, steps, dtype=torch.float64))

    def noisy(self, clean: torch.Tensor, step: int, noise: torch.Tensor) -> torch.Tensor:
        """Return a draw of the images after `step` + 1 steps of noise."""
        retained = float(self.alpha_bar[step])
        return math.sqrt(retained) * clean + math.sqrt(1 - retained) * noise

    def image(self, noisy: torch.Tensor, step: int, noise: torch.Tensor) -> torch.Tensor:
        """Return the clean images that the noise at a step implies, in [-1, 1]."""
        retained = float(self.alpha_bar[step])
        return ((noisy - math.sqrt(1 - retained) * noise) / math.sqrt(retained)).clamp(-1, 1)

    def back(self, denoiser: Denoiser, x: torch.Tensor, step: int, draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return a draw of the images one step earlier; step 0, the last one, adds no noise.

        `draw`: returns standard normal noise of the shape of `x`.
        """
        answer = denoiser(x, torch.full((len(x),), step, device=x.device))
        noise, spread = answer[:, : x.shape[1]], answer[:, x.shape[1] :]
        mean = float(self.from_image[step]) * self.image(x, step, noise) + float(self.from_noisy[step]) * x
        if step == 0:
            return mean
        low, high = math.log(float(self.variance[step])), math.log(float(self.betas[step]))
        log_variance = low + (high - low) * (spread + 1) / 2 if spread.shape[1] else torch.tensor(low)
        return mean + (0.5 * log_variance).exp().to(x.device) * draw()

    def purified(
        self,
        denoiser: Denoiser,
        x: torch.Tensor,
        steps: int,
        draw: Callable[[], torch.Tensor],
        *,
        recomputed: bool = True,
    ) -> torch.Tensor:
        """Return images in [-1, 1] noised by `steps` steps and brought back, one step at a time.

        For a gradient, each step is `recomputed`: what is kept is one image per step, not the network's activations.
        Those of a small network are kept, which saves a third of the work. Nie, Guo, Huang, Xiao, Vahdat & Anandkumar,
        "Diffusion Models for Adversarial Purification" (ICML 2022), algorithm 1.
        """
        x = self.noisy(x, steps - 1, draw())
        for step in reversed(range(steps)):
            noise = draw() if step else x  # drawn here, so that a second computation gets the same
            if recomputed:
                x = checkpoint(self._back, denoiser, x, step, noise, use_reentrant=False, preserve_rng_state=False)
            else:
                x = self._back(denoiser, x, step, noise)
        return x

    def _back(self, denoiser: Denoiser, x: torch.Tensor, step: int, noise: torch.Tensor) -> torch.Tensor:
        return self.back(denoiser, x, step, lambda: noise)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(32, max(1, channels // 8)), channels)


def embedding(steps: torch.Tensor, width: int) -> torch.Tensor:
    """Return cosines and sines ``(N, width)`` of the steps."""
    half = width // 2
    frequencies = torch.exp(-math.log(10_000) * torch.arange(half, device=steps.device) / half)
    angles = steps[:, None].float() * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class _Block(nn.Module):
    """Two convolutions around a shortcut, scaled and shifted by the step; may halve or double the size."""

    def __init__(self, ins: int, outs: int, embedded: int, resize: float = 1) -> None:
        super().__init__()
        self.resize = resize
        self.in_layers = nn.Sequential(_norm(ins), nn.SiLU(), nn.Conv2d(ins, outs, 3, 1, 1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(embedded, 2 * outs))
        self.out_layers = nn.Sequential(_norm(outs), nn.SiLU(), nn.Identity(), nn.Conv2d(outs, outs, 3, 1, 1))
        self.skip_connection = nn.Identity() if ins == outs else nn.Conv2d(ins, outs, 1)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        h = self.in_layers[2](self._resized(self.in_layers[:2](x)))
        scale, shift = self.emb_layers(step)[:, :, None, None].chunk(2, dim=1)
        h = self.out_layers[1:](self.out_layers[0](h) * (1 + scale) + shift)
        return self.skip_connection(self._resized(x)) + h

    def _resized(self, x: torch.Tensor) -> torch.Tensor:
        if self.resize < 1:
            return F.avg_pool2d(x, 2)
        return F.interpolate(x, scale_factor=2, mode="nearest") if self.resize > 1 else x


class _Attention(nn.Module):
    """Self-attention over all places, heads of 64 channels."""

    HEAD = 64

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.qkv = _norm(channels), nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        n, channels = x.shape[:2]
        flat = x.flatten(2)
        heads = self.qkv(self.norm(flat)).view(n, channels // self.HEAD, 3 * self.HEAD, -1).transpose(2, 3)
        mixed = F.scaled_dot_product_attention(*heads.split(self.HEAD, dim=3))
        return (flat + self.proj_out(mixed.transpose(2, 3).reshape(n, channels, -1))).view_as(x)


class GuidedUNet(nn.Module):
    """The U-Net of guided diffusion: noisy images and steps -> noise, with 2 C channels also its spread.

    The defaults are the published 256x256 unconditional network. Sides are multiples of ``2 ** (levels - 1)``.
    """

    def __init__(
        self,
        width: int = 256,
        multiples: tuple[int, ...] = (1, 1, 2, 2, 4, 4),
        blocks: int = 2,
        attention: tuple[int, ...] = (3, 4, 5),
        learned_spread: bool = True,
    ) -> None:
        super().__init__()
        self.width, self.unit = width, 2 ** (len(multiples) - 1)
        e = 4 * width
        self.time_embed = nn.Sequential(nn.Linear(width, e), nn.SiLU(), nn.Linear(e, e))
        self.input_blocks = nn.ModuleList([nn.ModuleList([nn.Conv2d(3, width, 3, 1, 1)])])
        channels, skip_channels = width, [width]
        for level, multiple in enumerate(multiples):
            for _ in range(blocks):
                self.input_blocks.append(self._layers(channels, multiple * width, e, level in attention))
                channels = multiple * width
                skip_channels.append(channels)
            if level < len(multiples) - 1:
                self.input_blocks.append(nn.ModuleList([_Block(channels, channels, e, 0.5)]))
                skip_channels.append(channels)
        middle = [_Block(channels, channels, e), _Attention(channels), _Block(channels, channels, e)]
        self.middle_block = nn.ModuleList(middle if attention else [middle[0], middle[2]])
        self.output_blocks = nn.ModuleList()
        for level, multiple in reversed(list(enumerate(multiples))):
            for number in range(blocks + 1):
                layers = self._layers(channels + skip_channels.pop(), multiple * width, e, level in attention)
                channels = multiple * width
                if level and number == blocks:
                    layers.append(_Block(channels, channels, e, 2))
                self.output_blocks.append(layers)
        self.out = nn.Sequential(_norm(channels), nn.SiLU(), nn.Conv2d(channels, 6 if learned_spread else 3, 3, 1, 1))

    @staticmethod
    def _layers(ins: int, outs: int, embedded: int, attends: bool) -> nn.ModuleList:
        return nn.ModuleList([_Block(ins, outs, embedded), *([_Attention(outs)] if attends else [])])

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        step, skips = self.time_embed(embedding(steps, self.width)), []
        for layers in self.input_blocks:
            for layer in layers:
                x = layer(x) if isinstance(layer, nn.Conv2d) else layer(x, step)
            skips.append(x)
        for layer in self.middle_block:
            x = layer(x, step)
        for layers in self.output_blocks:
            x = torch.cat([x, skips.pop()], dim=1)
            for layer in layers:
                x = layer(x, step)
        return self.out(x)

"""A small vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021), learned positions."""

import torch
from pydantic import Field
from torch import nn

from imharness.data import seeded_init
from imharness.errors import UsageError
from imharness.gradients import Info, Model, NetworkFactory, hookimpl

SPREAD = 0.02
"""The standard deviation of the positions as initialised."""


class TinyViT(Model):
    """A vision transformer on small patches; logits from the mean of the tokens."""

    info = Info(id="harness/tiny-vit", version="2")
    opt_in = True
    patch: int = Field(default=4, ge=1, le=64, description="Side of a patch, px; it divides the sides of the images.")
    width: int = Field(default=96, ge=4, le=2048, multiple_of=4, description="Numbers of a token.")
    depth: int = Field(default=2, ge=1, le=24, description="Number of blocks.")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory, which raises `UsageError` for images that patches do not fill; weights are torch's."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            if shape[1] % self.patch or shape[2] % self.patch:
                raise UsageError(f"{self.label}: patches of {self.patch} px do not fill images of {shape[1:]} px.")
            tokens = (shape[1] // self.patch) * (shape[2] // self.patch)
            with seeded_init(rng):
                return Transformer(shape[0], self.patch, tokens, self.width, self.depth, classes).to(device)

        return network


class Transformer(nn.Module):
    """Patches become tokens, positions are added, blocks follow, and a linear layer reads the mean token."""

    def __init__(self, channels: int, patch: int, tokens: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(channels, width, patch, patch)
        self.position = nn.Parameter(SPREAD * torch.randn(1, tokens, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits ``(N, classes)`` of images ``(N, C, H, W)``."""
        tokens = self.embedding(images).flatten(2).transpose(1, 2) + self.position
        logits: torch.Tensor = self.head(self.blocks(tokens).mean(dim=1))
        return logits


class Block(nn.Module):
    """Attention of four heads and a network of two layers on tokens ``(N, tokens, width)``, each with a residual."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return tokens of the same shape; attention is written out, as torch's own has no second derivative."""
        read = self.read(self.before(tokens)).unflatten(2, (3, self.heads, -1))
        query, key, value = read.permute(2, 0, 3, 1, 4)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        tokens = tokens + self.write((weights @ value).transpose(1, 2).flatten(2))
        return tokens + self.layers(self.after(tokens))


@hookimpl
def components() -> list[Model]:
    return [TinyViT()]

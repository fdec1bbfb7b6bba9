"""Vision transformers of the DINO family, and images at the size that they read.

Dosovitskiy et al., "An Image is Worth 16x16 Words" (ICLR 2021), section 3.1; Caron et al., "Emerging Properties in
Self-Supervised Vision Transformers" (ICCV 2021). Names of weights are those of the published files.
"""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Images

SIDE = 224
"""The side of the images that published embeddings were trained on, px."""


def at_side(images: Images) -> Images:
    """Return images ``(N, 3, 224, 224)``, bicubic and antialiased, in [0, 1]; those of this size as they are."""
    if images.shape[2:] == (SIDE, SIDE):
        return images
    return F.interpolate(images, (SIDE, SIDE), mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, tokens, width = x.shape
        q, k, v = self.qkv(x).view(count, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.proj(attended.transpose(1, 2).reshape(count, tokens, width))


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.attn = _Attention(width, heads)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class VisionTransformer(nn.Module):
    """Normalised images ``(N, 3, 224, 224)`` -> the class token after the last block ``(N, width)``, not normalised."""

    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12, patch: int = 16) -> None:
        super().__init__()
        tokens = (SIDE // patch) ** 2 + 1
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, patch, patch)})
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.patch_embed["proj"](images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(images), -1, -1), patches], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return x[:, 0]


def adapted(network: nn.Module, adapter: dict[str, torch.Tensor], scale: float, prefix: str) -> int:
    """Add low-rank updates to the weights of layers: W + scale B A; return how many layers were changed.

    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (ICLR 2022), section 4.1.

    Args:
        network: the layers to change, in place.
        adapter: ``PREFIX.LAYER.lora_A.weight`` ``(rank, in)`` and ``PREFIX.LAYER.lora_B.weight`` ``(out, rank)``.
        scale: the factor of the update, alpha by rank.
        prefix: what stands before the names of layers.

    Raises:
        KeyError: a layer is not in the network, or a tensor is no update of a layer.
    """
    downs, ups, parameters = {}, {}, dict(network.named_parameters())
    for name, tensor in adapter.items():
        layer = name.removeprefix(prefix).rpartition(".lora_")[0]
        halves = {f"{prefix}{layer}.lora_A.weight": downs, f"{prefix}{layer}.lora_B.weight": ups}
        halves[name][layer] = tensor
    for layer in downs.keys() | ups.keys():
        with torch.no_grad():
            parameters[f"{layer}.weight"].add_(ups[layer] @ downs[layer], alpha=scale)
    return len(downs)

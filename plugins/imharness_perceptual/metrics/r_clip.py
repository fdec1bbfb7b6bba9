"""R-CLIP: the cosine distance of CLIP's image embeddings, after adversarial fine-tuning of the encoder.

Croce, Schlarmann, Singh & Hein, "Adversarially Robust CLIP Models Can Induce Better (Robust) Perceptual Metrics" (SaTML
2025). The encoder is CLIP's ViT-B/16 of LAION-2B, fine-tuned on ImageNet against perturbations of at most 4/255. FARE
needs no labels: attacked images shall have the embeddings that the encoder gave before the fine-tuning. TeCoA uses the
names of classes. By the authors' model cards, FARE agrees with people on 90.6 % of NIGHTS, and on 71.5 % under attacks
of 4/255; TeCoA on 91.9 % and 79.4 %. Here the whole image is scaled to 224 px; the authors cut out the middle square
first, which is the same for square images.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.references import ReferenceFeatures
from imharness_vision.constants import constant
from imharness_vision.lpips import not_repeated
from imharness_vision.vit import SIDE, at_side
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

PUBLISHER = "https://huggingface.co/chs20"
PUBLISHED = {
    "fare": ("FARE4-ViT-B-16-laion2B-s34B-b88K", "0d432910d3e70ea6fe043662a9fa99472ae87dffef8b1ddd6f5383f96d6dff27"),
    "tecoa": ("TeCoA4-ViT-B-16-laion2B-s34B-b88K", ""),
}
"""Fine-tuning -> the name of its page, and the digest that the page states."""
ASSETS = {
    tuning: Asset(
        name=f"r-clip-{tuning}",
        file=f"weights/r-clip/{tuning}.bin",
        sha256=digest,
        licence="MIT",
        source=f"{PUBLISHER}/{page}",
        address=f"{PUBLISHER}/{page}/resolve/main/open_clip_pytorch_model.bin",
    )
    for tuning, (page, digest) in PUBLISHED.items()
}
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""The mean and the standard deviation of the pixels in the training of CLIP, by channel."""
UNUSED = ("transformer.", "token_embedding.", "ln_final.", "positional_embedding", "text_projection", "logit_scale")
"""Prefixes of the names of the weights of the text encoder, which is not needed."""
LEAST = 1e-6
"""The least product of the lengths of two embeddings by which their cosine divides."""


class _Attention(nn.Module):
    """Multi-head self-attention of tokens ``(N, tokens, width)``, with the names of weights of the published file."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = F.linear(x, self.in_proj_weight, self.in_proj_bias).unflatten(2, (3, self.heads, -1))
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _Block(nn.Module):
    """A block of the transformer: attention and a network of two layers, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = _Attention(width, heads)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class ImageEncoder(nn.Module):
    """Images ``(N, 3, 224, 224)`` in [0, 1] -> embeddings ``(N, embedded)``, of no particular length."""

    def __init__(
        self, width: int = 768, depth: int = 12, heads: int = 12, patch: int = 16, embedded: int = 512
    ) -> None:
        super().__init__()
        self.class_embedding = nn.Parameter(torch.zeros(width))
        self.positional_embedding = nn.Parameter(torch.zeros((SIDE // patch) ** 2 + 1, width))
        self.proj = nn.Parameter(torch.zeros(width, embedded))
        self.conv1 = nn.Conv2d(3, width, patch, patch, bias=False)
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = nn.ModuleDict({"resblocks": nn.Sequential(*[_Block(width, heads) for _ in range(depth)])})

    def forward(self, images: Images) -> torch.Tensor:
        mean, deviation = (constant(numbers, images).view(1, 3, 1, 1) for numbers in (MEAN, DEVIATION))
        patches = self.conv1((images - mean) / deviation).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(images), 1, -1)
        tokens = self.ln_pre(torch.cat([first, patches], dim=1) + self.positional_embedding)
        return self.ln_post(self.transformer["resblocks"](tokens)[:, 0]) @ self.proj


class RobustClip(FullReferenceMetric):
    """Cosine distance of embeddings by a CLIP fine-tuned against attacks; 0 for identical images, at most 2."""

    opt_in = True

    info = MetricInfo(
        id="harness/r-clip", version="1", higher_means="worse_quality", bounds=(0, 2), unit="1", paper="croce2025"
    )
    tuning: Literal["fare", "tecoa"] = Field(default="fare", description="The adversarial fine-tuning of the encoder.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published file."""
        return (ASSETS[self.tuning],)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric of images scaled to 224 px."""
        asset = ASSETS[self.tuning]
        with Undrawn():
            network = nn.ModuleDict({"visual": ImageEncoder()})
        fill(network, asset, state_dict(asset), UNUSED)
        encoder = frozen(network["visual"], device)
        reference_features = ReferenceFeatures(lambda images: [encoder(at_side(images))], limit=1)

        def score(images: Images, reference: Images) -> Scores:
            (origin,) = reference_features(not_repeated(reference))
            return 1 - F.cosine_similarity(encoder(at_side(images)), origin, dim=1, eps=LEAST)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [RobustClip()]

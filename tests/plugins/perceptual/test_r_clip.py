"""Robust CLIP on files of the published layout, with weights of our own."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from imharness.components.registry import installed
from imharness.errors import Unavailable
from imharness.testing.samples import images as sample_images
from imharness_perceptual.metrics import r_clip
from imharness_vision.vit import SIDE, at_side

CPU = torch.device("cpu")
WIDTH, DEPTH, HEADS, PATCH = 24, 2, 2, 56
SMALL = partial(r_clip.ImageEncoder, WIDTH, DEPTH, HEADS, PATCH, 16)
Weights = dict[str, torch.Tensor]


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Weights]:
    """Write files of a smaller network, one for each fine-tuning, and return their weights of the image encoder.

    Each file has a tensor of the text encoder, too.
    """
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setattr(r_clip, "ImageEncoder", SMALL)
    monkeypatch.setattr("imharness.contracts.assets.Asset.fits", lambda asset, digest: True)
    states = {}
    for seed, (tuning, asset) in enumerate(r_clip.ASSETS.items()):
        rng = torch.Generator().manual_seed(seed)
        states[tuning] = {n: 0.5 * torch.randn(t.shape, generator=rng) for n, t in SMALL().state_dict().items()}
        (tmp_path / asset.file).parent.mkdir(parents=True, exist_ok=True)
        visual = {f"visual.{name}": tensor for name, tensor in states[tuning].items()}
        torch.save(visual | {"logit_scale": torch.zeros(())}, tmp_path / asset.file)
    return states


def score(name: str, images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    distances: torch.Tensor = installed().one("metric", name).build(CPU)(images, reference)
    return distances


@torch.no_grad()
def embedded(state: Weights, images: torch.Tensor) -> torch.Tensor:
    """Return embeddings by torch's own layers of a transformer, with these weights."""
    mean = torch.tensor([0.48145466, 0.4578275, 0.40821073])
    deviation = torch.tensor([0.26862954, 0.26130258, 0.27577711])
    patches = nn.functional.unfold((images - mean.view(3, 1, 1)) / deviation.view(3, 1, 1), PATCH, stride=PATCH)
    tokens = patches.transpose(1, 2) @ state["conv1.weight"].flatten(1).T
    x = torch.cat([state["class_embedding"].expand(len(images), 1, -1), tokens], dim=1) + state["positional_embedding"]
    x = nn.functional.layer_norm(x, (WIDTH,), state["ln_pre.weight"], state["ln_pre.bias"])
    names = {"norm1": "ln_1", "norm2": "ln_2", "linear1": "mlp.c_fc", "linear2": "mlp.c_proj", "self_attn": "attn"}
    for block in range(DEPTH):
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0, "gelu", batch_first=True, norm_first=True)
        prefix = f"transformer.resblocks.{block}"
        split = {name: name.partition(".") for name in layer.state_dict()}
        layer.load_state_dict({n: state[f"{prefix}.{names[head]}.{rest}"] for n, (head, _, rest) in split.items()})
        x = layer(x)
    first = nn.functional.layer_norm(x[:, 0], (WIDTH,), state["ln_post.weight"], state["ln_post.bias"])
    return first @ state["proj"]


@pytest.mark.parametrize("tuning", ["fare", "tecoa"])
def test_it_is_the_cosine_distance_of_class_tokens(weights: dict[str, Weights], tuning: str) -> None:
    images, reference = sample_images(3, SIDE, SIDE, 1), sample_images(3, SIDE, SIDE, 2)
    one, other = (embedded(weights[tuning], x) for x in (images, reference))
    expected = 1 - torch.cosine_similarity(one, other)
    assert expected.min() > 5e-4
    torch.testing.assert_close(score(f"r-clip[tuning={tuning}]", images, reference), expected, rtol=1e-3, atol=1e-6)


def test_images_of_any_size_are_scaled_whole(weights: dict[str, Weights]) -> None:
    images = sample_images(2, 40, 60, 1)
    scaled = score("r-clip", at_side(images), at_side(images.flip(3)))
    torch.testing.assert_close(score("r-clip", images, images.flip(3)), scaled)


@pytest.mark.parametrize("name", ["r-clip", "r-clip[tuning=tecoa]"])
def test_absent_weights_are_unavailable_with_the_command_that_gets_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="is not on this machine") as error:
        installed().one("metric", name).require()
    assert error.value.remedy.startswith("harness assets get r-clip-")

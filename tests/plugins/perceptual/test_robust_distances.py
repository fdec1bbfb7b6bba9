"""R-LPIPS, LipSim and DreamSim on files of the published layout, with weights of our own."""

from __future__ import annotations

import functools
import json
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save

from imharness.components.registry import installed
from imharness.errors import Unavailable
from imharness.testing.samples import images as sample_images
from imharness_perceptual.metrics import dreamsim, lipsim
from imharness_perceptual.metrics.r_lpips import ASSETS as ROBUST
from imharness_vision import weights
from imharness_vision.vit import SIDE, VisionTransformer, at_side

CPU = torch.device("cpu")
SMALL = {"width": 24, "depth": 2, "heads": 2, "patch": 56}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    return tmp_path


def score(name: str, images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    distances: torch.Tensor = installed().one("metric", name).build(CPU)(images, reference)
    return distances


def drawn(like: dict[str, torch.Tensor], seed: int, size: float = 0.05) -> dict[str, torch.Tensor]:
    """Return weights of these names and shapes."""
    rng = torch.Generator().manual_seed(seed)
    return {name: size * torch.randn(tensor.shape, generator=rng) for name, tensor in like.items()}


def put(shelf: Path, file: str, content: object) -> Path:
    path = shelf / file
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)
    return path


def test_r_lpips_is_the_package_with_weights_of_one_file(shelf: Path) -> None:
    from lpips import LPIPS

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.random.manual_seed(3)
        network = LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).eval()
        for head in network.lins:
            head.model[1].weight.data.uniform_()
    put(shelf, ROBUST["x0"].file, network.state_dict())
    images, reference = sample_images(3, 64, 64, 1), sample_images(3, 64, 64, 2)
    with torch.no_grad():
        expected = network(images, reference, normalize=True).flatten()
    torch.testing.assert_close(score("r-lpips", images, reference), expected, rtol=1e-4, atol=1e-6)


def test_r_lpips_without_heads_says_what_is_absent(shelf: Path) -> None:
    put(shelf, ROBUST["x0"].file, {"net.slice1.0.weight": torch.zeros(64, 3, 11, 11)})
    with pytest.raises(Unavailable, match="lacks backbone"):
        installed().one("metric", "r-lpips").build(CPU)


@pytest.fixture
def small_lipsim(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Write a file of a smaller network, with names as data-parallel training gives them, and return its weights."""
    for name, value in {
        "CHANNELS": 4,
        "INSIDE": 3,
        "CONVOLUTIONS": 2,
        "FEATURES": 8,
        "LINEAR": 2,
        "EMBEDDED": 20,
    }.items():
        monkeypatch.setattr(lipsim, name, value)
    state = drawn(dict(lipsim.LipSimNetwork().named_parameters()), 5, 0.5)
    named = {f"module.backbone.model.{name}": tensor for name, tensor in state.items()}
    again = {name.replace("base.1.", "convs.").replace("base.2.", "linear."): tensor for name, tensor in named.items()}
    put(shelf, lipsim.ASSETS["margin-0.5"].file, {"epoch": 1, "model_state_dict": named | again})
    return state


def embedded(state: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """Return embeddings by the published equations of the layers, with every matrix written out."""
    x = F.pad(images.double(), (0, 0, 0, 0, 0, 1))
    doubled = {name: tensor.double() for name, tensor in state.items()}
    for i in range(2):
        kernel, bias = doubled[f"base.1.{i}.kernel"], doubled[f"base.1.{i}.bias"]
        share = 1 / F.conv2d(kernel, kernel, padding=2).abs().sum((1, 2, 3))
        inside = F.relu(F.conv2d(x, kernel, padding=1) + bias) * share.view(1, -1, 1, 1)
        x = x - 2 * F.conv_transpose2d(inside, kernel, padding=1)
    x = (4 * F.avg_pool2d(4 * F.avg_pool2d(x, 4), 4)).flatten(1)
    for i in (1, 2):
        weight, bias, q = (doubled[f"base.2.{i}.{name}"] for name in ("weight", "bias", "q"))
        overlap = (torch.diag((-q).exp()) @ weight @ weight.T @ torch.diag(q.exp())).abs()
        x = x - 2 * (F.relu(x @ weight.T + bias) / overlap.sum(1)) @ weight
    return x[:, :20]


def test_lipsim_follows_its_equation_and_moves_no_farther_than_the_image(
    small_lipsim: dict[str, torch.Tensor],
) -> None:
    images, reference = sample_images(3, SIDE, SIDE, 1), sample_images(3, SIDE, SIDE, 2)
    one, other = (embedded(small_lipsim, x) for x in (images, reference))
    expected = 1 - F.cosine_similarity(one, other)
    torch.testing.assert_close(score("lipsim", images, reference).double(), expected, rtol=1e-3, atol=1e-5)
    moved = (one - other).norm(dim=1)
    assert (moved <= (images - reference).double().flatten(1).norm(dim=1)).all()
    assert (moved > 0).all()


def test_lipsim_reads_images_of_any_size(small_lipsim: dict[str, torch.Tensor]) -> None:
    images = sample_images(2, 40, 60, 1)
    torch.testing.assert_close(
        score("lipsim", images, images.flip(3)), score("lipsim", at_side(images), at_side(images.flip(3)))
    )


@pytest.fixture
def small_dreamsim(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Write a smaller backbone and an archive with updates of its layers; return the weights with the updates."""
    monkeypatch.setattr(dreamsim, "VisionTransformer", functools.partial(VisionTransformer, **SMALL))
    state = drawn(VisionTransformer(**SMALL).state_dict(), 7, 0.2)
    put(shelf, dreamsim.DINO.file, state)
    updates, changed = {}, dict(state)
    for layer in ("blocks.0.attn.qkv", "blocks.1.attn.qkv"):
        down, up = torch.randn(2, 24, generator=torch.Generator().manual_seed(1)), torch.full((72, 2), 0.1)
        updates |= {f"{dreamsim.PREFIX}{layer}.lora_A.weight": down, f"{dreamsim.PREFIX}{layer}.lora_B.weight": up}
        changed[f"{layer}.weight"] = state[f"{layer}.weight"] + 0.25 * up @ down
    archive(shelf, {"lora_alpha": 0.5, "r": 2}, updates)
    return changed


def archive(shelf: Path, settings: object, updates: dict[str, torch.Tensor]) -> None:
    """Write DreamSim's archive of an adapter: its settings and the updates of layers."""
    path = shelf / dreamsim.ADAPTER.file
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive_file:
        archive_file.writestr(f"{dreamsim.FOLDER}/adapter_config.json", json.dumps(settings))
        archive_file.writestr(f"{dreamsim.FOLDER}/adapter_model.safetensors", save(updates))


def class_token(state: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """Return the class token of torchvision's transformer with these weights."""
    from torchvision.models.vision_transformer import VisionTransformer as Peer

    peer = Peer(SIDE, SMALL["patch"], SMALL["depth"], SMALL["heads"], SMALL["width"], 4 * SMALL["width"])
    peer.encoder.ln, peer.heads = torch.nn.Identity(), torch.nn.Identity()
    renamed = {
        "class_token": state["cls_token"],
        "encoder.pos_embedding": state["pos_embed"],
        "conv_proj.weight": state["patch_embed.proj.weight"],
        "conv_proj.bias": state["patch_embed.proj.bias"],
    }
    names = {
        "norm1": "ln_1",
        "norm2": "ln_2",
        "attn.proj": "self_attention.out_proj",
        "mlp.fc1": "mlp.0",
        "mlp.fc2": "mlp.3",
    }
    for block in range(SMALL["depth"]):
        here, there = f"blocks.{block}", f"encoder.layers.encoder_layer_{block}"
        for kind in ("weight", "bias"):
            renamed[f"{there}.self_attention.in_proj_{kind}"] = state[f"{here}.attn.qkv.{kind}"]
            renamed |= {f"{there}.{new}.{kind}": state[f"{here}.{old}.{kind}"] for old, new in names.items()}
    peer.load_state_dict(renamed)
    with torch.no_grad():
        output: torch.Tensor = peer.eval()(images)
    return output


def test_dreamsim_is_one_minus_the_correlation_of_tuned_class_tokens(small_dreamsim: dict[str, torch.Tensor]) -> None:
    images, reference = sample_images(3, SIDE, SIDE, 1), sample_images(3, SIDE, SIDE, 2)
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    one, other = (class_token(small_dreamsim, (x - mean) / std) for x in (images, reference))
    expected = torch.stack([1 - torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(one, other, strict=True)])
    torch.testing.assert_close(score("dreamsim", images, reference), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "layer", "message"),
    [
        ({"r": 2}, "blocks.0.attn.qkv", "holds other updates: 'lora_alpha'"),
        ({"lora_alpha": 1, "r": 2}, "blocks.9.attn.qkv", "holds other updates: 'blocks.9.attn.qkv.weight'"),
        ({"lora_alpha": 1, "r": 2}, "", "holds other updates: 'base_model.*other.weight'"),
        ({"lora_alpha": 1, "r": 2}, None, "holds no updates of layers"),
    ],
)
def test_updates_that_do_not_fit_are_said_in_one_line(
    small_dreamsim: dict[str, torch.Tensor], shelf: Path, settings: object, layer: str | None, message: str
) -> None:
    tensors = {"lora_A": torch.zeros(2, 24), "lora_B": torch.zeros(72, 2)} if layer else {"other": torch.zeros(1)}
    updates = {f"{dreamsim.PREFIX}{layer}.{name}.weight": tensor for name, tensor in tensors.items()}
    archive(shelf, settings, {} if layer is None else updates)
    with pytest.raises(Unavailable, match=message) as error:
        installed().one("metric", "dreamsim").build(CPU)
    assert "\n" not in str(error.value)


def test_a_damaged_archive_is_said_in_one_line(
    small_dreamsim: dict[str, torch.Tensor], shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shelf / dreamsim.ADAPTER.file
    for compressed in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", compressed) as archive_file:
            archive_file.writestr(f"{dreamsim.FOLDER}/adapter_model.safetensors", bytes(range(256)) * 64)
        content = bytearray(path.read_bytes())
        content[90:110] = b"\xff" * 20
        path.write_bytes(content)
        with pytest.raises(Unavailable, match="is not a readable zip archive") as error:
            installed().one("metric", "dreamsim").build(CPU)
        assert "\n" not in str(error.value)
    archive(shelf, {}, {"x": torch.zeros(100)})
    monkeypatch.setattr(weights, "UNPACKED", 10)
    with pytest.raises(Unavailable, match="of more than 0 GiB"):
        installed().one("metric", "dreamsim").build(CPU)


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_no_archive_is_said_in_one_line(
    small_dreamsim: dict[str, torch.Tensor], shelf: Path, content: bytes
) -> None:
    (shelf / dreamsim.ADAPTER.file).write_bytes(content)
    with pytest.raises(Unavailable, match="is not a readable zip archive"):
        installed().one("metric", "dreamsim").build(CPU)


@pytest.mark.parametrize("name", ["r-lpips", "lipsim", "lipsim[tuning=none]", "dreamsim"])
def test_absent_weights_are_unavailable_with_a_way_to_get_them(name: str, shelf: Path) -> None:
    with pytest.raises(Unavailable) as error:
        installed().one("metric", name).require()
    assert error.value.remedy.startswith(("harness assets get", "download"))

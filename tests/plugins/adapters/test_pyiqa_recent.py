"""ARNIQA, LIQE and QualiCLIP of the profile `recent` run on random weights in the layout of the published files.

CLIP is smaller than the published one, whose code takes the sizes from the file. Random weights know no quality, so the
direction is checked by a symmetry: with the opposite head, a score must be mirrored at the middle of its scale.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tests.standins import saved
from torch import nn
from torchvision.models import get_model

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.data import generator, seeded_init
from imharness.testing.conformance import check_component, failed
from imharness_adapters.pyiqa.metrics import Pyiqa, prepared

pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # pyiqa leaves files open
]
NAMES = ("arniqa", "liqe", "qualiclip")
CPU = torch.device("cpu")
EMBEDDED, WORDS, LENGTH = 32, 49408, 77  # width of an embedding; CLIP's vocabulary and its longest text, in tokens
MIDDLE = {"arniqa": 0.5, "liqe": 3.0, "qualiclip": 0.5}
"""The middle of the scale of each metric: 0 to 1, 1 to 5, 0 to 1."""
MOS = (1.0, 100.0)
"""KonIQ-10k's scale of opinion scores, which the regressor of ARNIQA answers on."""


def clip(path: Path, is_vit: bool) -> dict[str, torch.Tensor]:
    """Write a small CLIP as a TorchScript archive, as OpenAI published it, and return its tensors."""
    from pyiqa.archs.clip_model import CLIP

    layers, width = (2, 64) if is_vit else ((1, 1, 1, 1), 16)
    network = CLIP(EMBEDDED, 224, layers, width, 32, LENGTH, WORDS, 64, 1, 1).eval()
    seen = (torch.rand(1, 3, 224, 224), torch.zeros(1, LENGTH, dtype=torch.long))
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(action="ignore"):  # that the trace is of one size; only its tensors are read
        torch.jit.save(torch.jit.trace(network, seen, check_trace=False), path)
    return network.state_dict()


def arniqa(checkpoints: Path, cache: Path) -> None:
    """Write the ResNet-50 of torchvision, the encoder with its projector, and a linear regressor as TorchScript."""
    checkpoints.mkdir(parents=True)
    saved(lambda: get_model("resnet50", weights=None), seen=(4, 3, 96, 128))(checkpoints / "resnet50-0676ba61.pth")
    encoder = nn.Sequential(*list(get_model("resnet50", weights=None).children())[:-1])
    saved(
        lambda: encoder,
        lambda tensors: {f"model.{k}": v for k, v in tensors.items()} | {"projector.0.weight": torch.zeros(128, 2048)},
        seen=(4, 3, 96, 128),
    )(checkpoints / "ARNIQA.pth")
    regressor = nn.Linear(4096, 1)
    regressor.weight.data.normal_(0, 40)
    regressor.bias.data.fill_(55)
    torch.jit.save(torch.jit.script(regressor), cache / "regressor_koniq10k.pth")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Stand-ins for all files of weights; yields the folder of those that pyiqa keeps itself."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        yield written(tmp_path_factory.mktemp("recent"), patch)


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the stand-ins, point the libraries to them, and prepare the metrics."""
    from pyiqa.archs import clip_model, liqe_arch
    from pyiqa.utils import download_util

    cache, hub = tmp_path / "weights", tmp_path / "torch" / "hub"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    for module in (download_util, liqe_arch):
        monkeypatch.setattr(module, "DEFAULT_CACHE_DIR", str(cache))
    with seeded_init(generator(0)), torch.random.fork_rng():
        torch.manual_seed(0)
        arniqa(hub / "checkpoints", cache)
        vit = clip(hub / "clip" / "ViT-B-32.pt", is_vit=True)
        resnet = clip(hub / "clip" / "RN50.pt", is_vit=False)
        torch.save({"params": {f"clip_model.{k}": v for k, v in vit.items()}}, cache / "liqe_koniq.pt")
        prompts = nn.functional.normalize(torch.randn(14, EMBEDDED), dim=1)
    tensors = {f"clip_model.{k}": v for k, v in resnet.items()} | {"prompts_features": prompts}
    torch.save(tensors, cache / "QualiCLIP.pth")
    for name, file in (("ViT-B/32", "ViT-B-32.pt"), ("RN50", "RN50.pt")):
        digest = hashlib.sha256((hub / "clip" / file).read_bytes()).hexdigest()
        monkeypatch.setitem(clip_model._MODELS, name, f"https://models.example/{digest}/{file}")
    result = CliRunner().invoke(cli, ["pyiqa", "prepare", *NAMES, "--images", "4"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return cache


def turn(cache: Path) -> None:
    """Replace each head by the opposite one: bad for good, and good for bad. Twice, it is as before."""
    regressor = torch.jit.load(cache / "regressor_koniq10k.pth")
    other = nn.Linear(4096, 1)
    other.weight.data, other.bias.data = -regressor.weight.data, sum(MOS) - regressor.bias.data
    torch.jit.save(torch.jit.script(other), cache / "regressor_koniq10k.pth")
    texts = torch.load(cache / "liqe_text_feat.pt", weights_only=True)
    torch.save(texts.flip(0), cache / "liqe_text_feat.pt")
    tensors = torch.load(cache / "QualiCLIP.pth", weights_only=True)
    tensors["prompts_features"] = tensors["prompts_features"].view(7, 2, -1).flip(1).reshape(14, -1)
    torch.save(tensors, cache / "QualiCLIP.pth")


def images() -> torch.Tensor:
    smooth = torch.rand(3, 3, 28, 28, generator=generator(3))
    return nn.functional.interpolate(smooth, size=(224, 224), mode="bilinear")


def built(name: str) -> Callable[[Any], torch.Tensor]:
    metric = installed().one("metric", f"pyiqa:{name}")
    metric.require()
    return metric.build(CPU)


def test_they_score_within_their_scale_by_the_direction_that_is_stated_and_with_gradients(weights: Path) -> None:
    first = {name: built(name)(images()) for name in NAMES}
    for name, scores in first.items():
        metric, record = installed().one("metric", f"pyiqa:{name}"), prepared(name)
        assert scores.shape == (3,)
        assert scores.dtype == torch.float32
        assert len(set(scores.tolist())) == 3
        assert metric.closeness == 1
        assert record is not None
        assert record.differentiable
        assert metric.bounds == (record.lower, record.upper)
        assert record.lower < record.upper
        if name != "arniqa":  # whose regressor is linear, and may leave the scale
            half_width = MIDDLE[name] - (name == "liqe")  # scales begin at 0, that of LIQE at 1
            assert MIDDLE[name] - half_width <= record.lower < record.upper <= MIDDLE[name] + half_width
    turn(weights)
    try:
        for name, scores in first.items():
            torch.testing.assert_close(built(name)(images()), 2 * MIDDLE[name] - scores, rtol=1e-3, atol=1e-4)
    finally:
        turn(weights)


def test_gradients_are_the_slopes_of_the_scores(weights: Path) -> None:
    for name in NAMES:
        score, pixels = built(name), images().clamp(0.1, 0.9).requires_grad_(True)
        (slope,) = torch.autograd.grad(score(pixels).sum(), pixels)
        way = slope / slope.flatten(1).norm(dim=1)[:, None, None, None]
        with torch.no_grad():
            step = 0.02
            measured = (score(pixels + step * way) - score(pixels - step * way)) / (2 * step)
        expected = (slope * way).flatten(1).sum(dim=1)
        assert (expected > 0).all()
        torch.testing.assert_close(measured, expected, rtol=0.1, atol=1e-5, msg=lambda message: f"{name}: {message}")  # noqa: B023


def test_arniqa_is_a_regression_on_unit_features_of_an_image_and_of_its_half(weights: Path) -> None:
    """Agnolucci et al., "ARNIQA" (WACV 2024), section 3, written again with torchvision."""
    network = get_model("resnet50", weights=None)
    network.fc = nn.Identity()
    checkpoint = torch.load(weights.parent / "torch" / "hub" / "checkpoints" / "ARNIQA.pth", weights_only=True)
    places = dict(enumerate(name for name, _ in network.named_children()))
    tensors = {
        f"{places[int(k.split('.')[1])]}.{k.split('.', 2)[2]}": v
        for k, v in checkpoint.items()
        if k.startswith("model.")
    }
    network.load_state_dict(tensors)
    network.eval()
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    regressor = torch.jit.load(weights / "regressor_koniq10k.pth")
    features = []
    with torch.no_grad():
        for side in (224, 112):
            seen = nn.functional.interpolate(images(), size=(side, side), mode="bilinear")
            seen = (seen - mean[:, None, None]) / spread[:, None, None]
            features.append(nn.functional.normalize(network(seen), dim=1))
        opinion = regressor(torch.cat(features, dim=1))[:, 0]
        expected = (opinion - MOS[0]) / (MOS[1] - MOS[0])
        torch.testing.assert_close(built("arniqa")(images()), expected, rtol=1e-3, atol=1e-4)


def test_they_pass_the_checks_of_components_and_are_attacked_in_the_track(weights: Path) -> None:
    checked = check_component(installed().one("metric", "pyiqa:qualiclip"))  # LIQE takes no image as small as these
    assert [failure.message for failure in failed(checked)] == []
    simulated = "keeps every tensor on its device"  # a TorchScript module cannot be moved to a GPU that is simulated
    checked = check_component(installed().one("metric", "pyiqa:arniqa"))
    assert [failure.message for failure in failed(checked) if failure.check != simulated] == []
    words = ["--track", "iqa", "--profile", "quick", "--dataset", "severity-ladder[severities=[],size=224]"]
    words += [word for name in NAMES for word in ("--metric", f"pyiqa:{name}")]
    words += ["--attack", "ifgsm", "--defense", "none", "--limit", "2", "--workers", "0", "--progress", "none"]
    words += ["--store", str(weights.parent / "store")]
    result = CliRunner().invoke(cli, ["run", *words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] > len(NAMES)  # nothing that pyiqa prints stands in the JSON


def test_liqe_says_that_an_image_is_too_small(weights: Path) -> None:
    with pytest.raises(AssertionError, match="Short side is less than 224"):
        built("liqe")(images()[..., :200])
    assert Pyiqa(name="liqe").info.labelled

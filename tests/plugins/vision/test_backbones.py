"""Networks of torchvision and timm as backbones of metrics, with weights from a file alone."""

from pathlib import Path

import pytest
import torch
import torchvision.models
from safetensors.torch import save_file

from imharness.data import generator, seeded_init
from imharness.errors import Unavailable, UsageError
from imharness_iqa.metrics.backbone_quality import BackboneQuality
from imharness_perceptual.metrics.deep_features import DeepFeatures
from imharness_vision.perceptual import normalised

CPU = torch.device("cpu")
MEAN, DEVIATION = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def squeezenet(file: Path, **settings: int) -> torch.nn.Module:
    with seeded_init(generator(0)):
        network = torchvision.models.squeezenet1_1(weights=None, **settings).eval()
    save_file(network.state_dict(), file)
    return network


def small_network(file: Path, **settings: int) -> torch.nn.Module:
    with seeded_init(generator(0)):
        network = torchvision.models.shufflenet_v2_x0_5(weights=None, **settings).eval()
    save_file(network.state_dict(), file)
    return network


def test_scores_are_those_of_the_network_on_normalised_images(tmp_path: Path) -> None:
    network = small_network(tmp_path / "w.safetensors", num_classes=1)
    metric = BackboneQuality(
        backbone="torchvision/shufflenet_v2_x0_5", weights=str(tmp_path / "w.safetensors"), upper=3
    )
    images = torch.rand(2, 3, 64, 80, generator=generator(1))
    with torch.no_grad():
        expected = network(torchvision.transforms.functional.normalize(images, MEAN, DEVIATION)).flatten()
    torch.testing.assert_close(metric.build(CPU)(images), expected)
    assert metric.bounds == (0, 3)
    assert float(expected.abs().min()) > 0
    before = metric.content()
    small_network(tmp_path / "w.safetensors", num_classes=2)
    assert metric.content() != before


def test_a_distance_is_that_of_the_last_maps_of_each_resolution(tmp_path: Path) -> None:
    """Of squeezenet 1.1 these are the second ReLU, and the outputs of the fire modules 4, 7 and 12."""
    network = squeezenet(tmp_path / "w.safetensors")
    metric = DeepFeatures(backbone="torchvision/squeezenet1_1", weights=str(tmp_path / "w.safetensors"))
    first, second = torch.rand(2, 2, 3, 64, 64, generator=generator(1))
    expected = torch.zeros(2)
    x, y = normalised(first), normalised(second)
    with torch.no_grad():
        for number, layer in enumerate(network.features):
            x, y = layer(x), layer(y)
            if number in (1, 4, 7):
                units = [m / m.norm(dim=1, keepdim=True).clamp(min=1e-10) for m in (x, y)]
                expected += (units[0] - units[1]).square().sum(dim=1).mean(dim=(1, 2))
        x, y = network.classifier[:3](x), network.classifier[:3](y)
    units = [m / m.norm(dim=1, keepdim=True).clamp(min=1e-10) for m in (x, y)]
    expected += (units[0] - units[1]).square().sum(dim=1).mean(dim=(1, 2))
    built = metric.build(CPU)
    torch.testing.assert_close(built(first, second), expected, rtol=1e-4, atol=1e-6)
    assert built(first, first).tolist() == [0, 0]


def test_what_is_missing_or_does_not_fit_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "w.safetensors"
    squeezenet(file)
    with pytest.raises(Unavailable, match="no file of weights is named"):
        DeepFeatures().require()
    with pytest.raises(Unavailable, match="gone is not a file"):
        BackboneQuality(weights="gone").require()
    with pytest.raises(UsageError, match="write torchvision/NAME, timm/NAME or FILE"):
        DeepFeatures(backbone="resnet18", weights=str(file)).require()
    with pytest.raises(UsageError, match="torchvision has no network 'nosuch'"):
        DeepFeatures(backbone="torchvision/nosuch", weights=str(file)).build(CPU)
    with pytest.raises(Unavailable, match="are not of torchvision/resnet18"):
        DeepFeatures(weights=str(file)).build(CPU)
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(Unavailable, match=r"pip install 'image-privacy-harness\[timm\]'"):
        DeepFeatures(backbone="timm/resnet18", weights=str(file)).require()


BUILDER = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.Flatten())

def number():
    return 3
"""


def test_any_module_with_named_layers_is_a_backbone(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BUILDER)
    with seeded_init(generator(0)):
        convolutions = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 5, 3)
    state = {f"{2 * i}.{k}": v for i, layer in enumerate(convolutions) for k, v in layer.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    backbone = {"backbone": f"{tmp_path}/net.py:small", "weights": str(tmp_path / "w.safetensors")}
    metric = DeepFeatures(**backbone, layers="1+2")
    metric.require()
    first, second = torch.rand(2, 2, 3, 24, 24, generator=generator(1))
    maps = []
    with torch.no_grad():
        for images in (first, second):
            relu = convolutions[0](images).relu()
            maps.append((relu, convolutions[1](relu)))
    expected = torch.zeros(2)
    for x, y in zip(*maps, strict=True):
        units = [m / m.norm(dim=1, keepdim=True).clamp(min=1e-10) for m in (x, y)]
        expected += (units[0] - units[1]).square().sum(dim=1).mean(dim=(1, 2))
    torch.testing.assert_close(metric.build(CPU)(first, second), expected, rtol=1e-4, atol=1e-6)
    before = metric.content()
    (tmp_path / "net.py").write_text(BUILDER + "# another network")
    assert metric.content() != before
    with pytest.raises(UsageError, match="the network has no '9'"):
        DeepFeatures(**backbone, layers="1+9").build(CPU)
    with pytest.raises(UsageError, match=r"each must give one tensor \(N, C, h, w\)"):
        DeepFeatures(**backbone, layers="3").build(CPU)(first, second)
    with pytest.raises(UsageError, match=r"net\.py needs a function number without arguments"):
        DeepFeatures(**{**backbone, "backbone": f"{tmp_path}/net.py:number"}).build(CPU)
    with pytest.raises(Unavailable, match=r"gone\.py is not a file"):
        DeepFeatures(**{**backbone, "backbone": f"{tmp_path}/gone.py:small"}).require()


@pytest.mark.extra
def test_a_network_of_timm_is_a_backbone_too(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    with seeded_init(generator(0)):
        network = timm.create_model("resnet10t", pretrained=False)
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    images = torch.rand(2, 3, 64, 64, generator=generator(1))
    metric = DeepFeatures(backbone="timm/resnet10t", weights=str(tmp_path / "w.safetensors"))
    metric.require()
    assert bool((metric.build(CPU)(images, images.flip(3)) > 0).all())

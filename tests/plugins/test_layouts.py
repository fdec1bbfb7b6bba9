"""Every published file of weights is read in the layout of its authors, by the component that needs it."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.layouts import BY_ASSET, LAYOUTS, Layout
from torchvision.models import get_model

from imharness.components.inputs.checking import check_asset
from imharness.components.registry import installed
from imharness.contracts.assets import Asset
from imharness.contracts.component import Component
from imharness.contracts.randomness import generator
from imharness.errors import HarnessError, Unavailable
from imharness_iqa.defenses import diffpure
from imharness_perceptual.metrics import lipsim, r_clip
from imharness_perceptual.metrics.r_lpips import ASSETS as R_LPIPS
from imharness_perceptual.metrics.r_lpips import RLpips

CPU, META = torch.device("cpu"), torch.device("meta")
LARGE = diffpure.WEIGHTS.name
"""Of 553 million numbers: the network that reads it is made without memory."""
READERS: dict[str, Component] = {
    user.label: user
    for user in [
        *(entry.component for entry in installed().entries.values()),
        *(RLpips(attacked=name) for name in R_LPIPS),
    ]
    if user.assets() and LARGE not in [asset.name for asset in user.assets()]
}
"""Label -> a component that reads files of weights; each of them reads them in its own way."""
PYIQA = ("maniqa", "clip-iqa-plus", "topiq", "paq2piq")
"""Metrics whose files pyiqa opens itself."""
LEAVES_FILES_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def shelf(empty_places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of assets, where stand-ins pass for the files with published digests."""
    monkeypatch.setattr(Asset, "fits", lambda asset, digest: True)
    return empty_places / "shelf"


def put(shelf: Path, reader: Component, more: dict[str, torch.Tensor] | None = None) -> None:
    """Write stand-ins for all files of a component, with more tensors."""
    for asset in reader.assets():
        example = BY_ASSET[asset.name]
        Layout(example.facts, {**example.tensors, **(more or {})}).write(shelf / asset.file)


def test_every_file_of_weights_has_a_layout_with_its_source() -> None:
    files = {asset.name for reader in READERS.values() for asset in reader.assets()}
    files |= {asset.name for published in (lipsim.ASSETS, r_clip.ASSETS) for asset in published.values()}
    assert files | {LARGE, *PYIQA} == set(BY_ASSET)
    for name, layout in LAYOUTS.items():
        assert layout.facts["source"], name
        assert layout.facts.keys() <= {"source", "assets", "under", "beside", "format", "not-confirmed"}, name


@pytest.mark.parametrize(
    "label", [pytest.param(label, marks=[pytest.mark.extra] if "mprnet" in label else []) for label in READERS]
)
def test_files_in_the_layout_of_their_authors_are_read(label: str, shelf: Path) -> None:
    reader = READERS[label]
    put(shelf, reader)
    check_asset([reader], reader.assets()[0].name)


@pytest.mark.filterwarnings("ignore:.*which is a no-op:UserWarning")
def test_the_largest_file_in_the_layout_of_its_authors_is_read(shelf: Path) -> None:
    BY_ASSET[LARGE].write(shelf / diffpure.WEIGHTS.file)
    with META:
        network = diffpure.diffusion_model("published", META)
    assert sum(parameter.numel() for parameter in network.parameters()) == 552_814_086


@pytest.mark.parametrize(
    "label",
    [
        *(
            f"harness/{name}"
            for name in ("disco", "dists", "dreamsim", "fpr", "lipsim", "milo", "r-clip", "r-lpips", "real-esrgan")
        ),
        *(f"harness/lpips{net}" for net in ("", "[net=squeeze]", "[net=vgg]")),
        pytest.param("harness/mprnet", marks=pytest.mark.extra),
    ],
)
def test_a_tensor_that_nobody_names_is_refused(label: str, shelf: Path) -> None:
    """These readers drop tensors, or leave it to a library, and so name what they drop."""
    reader = READERS[label]
    put(shelf, reader, {"surprise.weight": torch.ones(3)})
    with pytest.raises(HarnessError, match="surprise"):
        check_asset([reader], reader.assets()[0].name)


@pytest.fixture
def pyiqa(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of weights of pyiqa, which makes backbones without the weights that its files replace anyway."""
    import timm
    import torchvision
    from pyiqa.archs import clip_model, clipiqa_arch
    from pyiqa.utils import download_util

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = Path(torch.hub.get_dir()) / "pyiqa"
    folder.mkdir(parents=True)
    monkeypatch.setattr(download_util, "DEFAULT_CACHE_DIR", str(folder))
    monkeypatch.setattr(timm, "create_model", partial(_untaught, timm.create_model))
    monkeypatch.setattr(torchvision.models, "resnet18", lambda weights: get_model("resnet18", weights=None))
    clip = clip_model.CLIP(1024, 224, (1, 1, 1, 1), 16, 32, 77, 49408, 512, 8, 1)
    monkeypatch.setattr(clipiqa_arch, "load", lambda name, device: clip.eval())
    return folder


def _untaught(make: Callable[..., torch.nn.Module], name: str, **settings: object) -> torch.nn.Module:
    return make(name, **{**settings, "pretrained": False})


@pytest.mark.extra
@LEAVES_FILES_OPEN
@pytest.mark.parametrize("name", PYIQA)
def test_pyiqa_reads_files_in_the_layout_of_their_authors(name: str, pyiqa: Path) -> None:
    metric = installed().one("metric", name)
    BY_ASSET[name].write(pyiqa / metric.weights)
    metric.require()
    metric.build(CPU)


@pytest.mark.extra
@LEAVES_FILES_OPEN
@pytest.mark.parametrize("name", PYIQA)
def test_pyiqa_runs_no_code_in_a_file_and_fetches_none(name: str, pyiqa: Path, tmp_path: Path) -> None:
    metric = installed().one("metric", name)
    with pytest.raises(Unavailable, match="weights of pyiqa are not on this machine"):
        metric.build(CPU)
    torch.save(_Code(tmp_path / "was-run"), pyiqa / metric.weights)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        metric.build(CPU)
    assert not (tmp_path / "was-run").exists()


@pytest.mark.extra
@LEAVES_FILES_OPEN
def test_maniqa_of_pyiqa_sees_the_whole_image(pyiqa: Path) -> None:
    metric, seen = installed().one("metric", "maniqa"), list[torch.Tensor]()
    BY_ASSET["maniqa"].write(pyiqa / metric.weights)
    network, images = metric.network(CPU), torch.rand(1, 3, 224, 224, generator=generator(0))
    network.vit.register_forward_pre_hook(lambda vit, inputs: seen.append(inputs[0]))
    network(images)
    torch.testing.assert_close(seen[0], 2 * images - 1)


class _Code:
    """Writes a file when it is opened as more than weights."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.file,)

"""Stand-ins for published files that a clean clone lacks: random weights and tiny data sets in the published layout.

The loading code of the product reads them like the real files. Their digests cannot be those of the real files, so
`StandIns` makes `Asset.fits` accept the digests of exactly the files that it wrote; every other file is still checked.
"""

import hashlib
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from safetensors.torch import save, save_file
from torch import nn
from torchvision.models import get_model
from torchvision.models.resnet import Bottleneck, ResNet

from imharness.contracts.assets import Asset
from imharness.contracts.component import Component
from imharness.contracts.randomness import generator, seeded_init
from imharness_iqa import denoisers
from imharness_iqa.attacks import cadv
from imharness_iqa.colorizer import Colorizer
from imharness_iqa.defenses import diffpure
from imharness_iqa.denoisers import DnCnn
from imharness_iqa.metrics import fpr, koncept512
from imharness_iqa.metrics.cnniqa import CnniqaNet
from imharness_iqa.metrics.linearity import LinearityNet
from imharness_iqa.metrics.meta_iqa import MetaIqaNet
from imharness_iqa.metrics.spaq import SpaqNet
from imharness_iqa.restorers import ColourFilter, LocalImplicit
from imharness_perceptual.metrics import dreamsim, lipsim, milo, r_clip
from imharness_perceptual.metrics.r_lpips import ASSETS as R_LPIPS
from imharness_vision.cifar_resnet import DEPTHS, CifarResNet
from imharness_vision.perceptual import Dists
from imharness_vision.vit import VisionTransformer

SMALL_UNET = partial(diffpure.GuidedUNet, width=8, multiples=(1, 2), blocks=1, attention=())
"""The U-Net of guided diffusion with two levels of one block: the published one has 553 million parameters."""
SMALL_DNCNN = partial(DnCnn, layers=5, width=16)
"""The published DnCNN has 17 layers of 64 channels."""
SMALL_FPR = partial(fpr.FprNet, width=16)
"""The published network has eight times as many channels."""
SMALL_SIDE = 64
"""The side of images in the diffusion model, px; the published one has 256, whatever the size of the images it gets."""
COLORIZER_WIDTH = 8
"""The published colourisation network has 64 channels at the size of the image."""

SMALL_LIPSIM = {"CHANNELS": 4, "INSIDE": 3, "CONVOLUTIONS": 2, "FEATURES": 8, "LINEAR": 2, "EMBEDDED": 20}
"""The published network of LipSim has 63 million parameters."""
SMALL_VIT = partial(VisionTransformer, width=24, depth=2, heads=2, patch=56)
"""The published network of DINO has 86 million parameters."""
SMALL_ENCODER = partial(r_clip.ImageEncoder, width=24, depth=2, heads=2, patch=56, embedded=16)
"""CLIP's encoder of images has 86 million parameters, too."""

SMALL = "shufflenet_v2_x0_5"
"""The network in place of the backbones of torchvision and timm."""
BACKBONES = {"backbone-quality": 1, "deep-features": 1000}
"""Metric that takes a backbone -> the number of outputs of its network."""


def shallow_resnext(weights: None = None) -> nn.Module:
    """Return a ResNeXt with one block for each size of maps, in place of 33 blocks."""
    return ResNet(Bottleneck, [1, 1, 1, 1], groups=32, width_per_group=8)


class StandIns:
    """A folder of stand-ins, each written when a component first asks for it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._digests: set[str] = set()
        fits = Asset.fits
        patch.setattr(Asset, "fits", lambda asset, digest: digest in self._digests or fits(asset, digest))
        patch.setenv("HARNESS_ASSETS", str(folder))
        patch.setattr(diffpure, "GuidedUNet", SMALL_UNET)
        patch.setattr(diffpure, "SIZE", SMALL_SIDE)
        patch.setattr(denoisers, "DnCnn", SMALL_DNCNN)
        patch.setattr(fpr, "FprNet", SMALL_FPR)
        patch.setattr(cadv, "PUBLISHED_WIDTH", COLORIZER_WIDTH)
        patch.setattr(koncept512, "REPEATED", (1, 1, 1))
        patch.setattr("torchvision.models.resnext101_32x8d", shallow_resnext)
        patch.setattr(dreamsim, "VisionTransformer", SMALL_VIT)
        patch.setattr(r_clip, "ImageEncoder", SMALL_ENCODER)
        for constant, value in SMALL_LIPSIM.items():
            patch.setattr(lipsim, constant, value)

    def provide(self, component: Component) -> Component:
        """Write what a component needs; return the component, with the path of the file if a parameter takes one."""
        for asset in component.assets():
            self._write(asset)
        name = component.info.id.partition("/")[2]
        if name == "saved-classifier":
            return component.with_parameters(weights=str(self._classifier(component)))
        if name in BACKBONES:
            return component.with_parameters(backbone=f"torchvision/{SMALL}", weights=str(self._backbone(name)))
        for source in component.data_sources():
            if not (self.folder / source.name).exists():
                (self.folder / source.name).mkdir()
                DATA[source.name](self.folder / source.name)
        if component.kind != "dataset" or name not in DATA or component.data_sources():
            return component
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            DATA[name](folder)
        return component.with_parameters(**{component.address: str(folder)}) if component.address else component

    def _backbone(self, name: str) -> Path:
        path = self.folder / f"{name}.safetensors"
        if not path.exists():
            with seeded_init(generator(0)):
                save_file(get_model(SMALL, weights=None, num_classes=BACKBONES[name]).state_dict(), path)
        return path

    def _write(self, asset: Asset) -> None:
        path = self.folder / asset.file
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with seeded_init(generator(0)):
            FILES[asset.name](path)
        with path.open("rb") as file:
            self._digests.add(hashlib.file_digest(file, "sha256").hexdigest())

    def _classifier(self, component: Component) -> Path:
        from imharness_reconstruction.models.saved_classifier import ARCHITECTURES

        path = self.folder / "classifier.safetensors"
        if not path.exists():
            build = ARCHITECTURES[component.architecture].build(torch.device("cpu"))
            save_file(build((3, 32, 32), 10, generator(0)).state_dict(), path)
        return path


Wrap = Callable[[dict[str, torch.Tensor]], object]


def saved(network: Callable[[], nn.Module], wrap: Wrap = lambda tensors: tensors, seen: tuple[int, ...] = ()) -> Any:
    """Return a function that writes a network's random weights to a path.

    `wrap`: returns what the file contains besides or around the tensors. `seen`: the shape of the random inputs that
    set the statistics of two-dimensional batch norms, without which a deep network gives almost constant answers.
    Floats are saved with 16 bits to save room.
    """

    def write(path: Path) -> None:
        model = network()
        if seen:
            for module in model.modules():
                if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                    module.momentum = float(isinstance(module, nn.BatchNorm2d))
            with torch.no_grad():
                model.train()(torch.rand(seen, generator=generator(1)))
        tensors = {k: v.half() if v.dtype == torch.float32 else v for k, v in model.state_dict().items()}
        torch.save(wrap(tensors), path)

    return write


def features_only(network: Callable[..., nn.Module], prefix: str = "features.") -> Callable[[], nn.Module]:
    """Return the convolutions of a network of torchvision, named with `prefix`; its classifier is never read."""

    def make() -> nn.Module:
        features: nn.Module = network(weights=None).features
        return nn.ModuleDict({"features": features}) if prefix else features

    return make


def vgg16_features() -> nn.Module:
    """Return the convolutions of VGG-16, initialised as torchvision does, without its large classifier."""
    from torchvision.models.vgg import cfgs, make_layers

    layers = make_layers(cfgs["D"])
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return nn.ModuleDict({"features": layers})


def vision(name: str) -> Callable[..., nn.Module]:
    """Return a network of torchvision by name."""
    from torchvision import models

    return getattr(models, name)


def inception() -> nn.Module:
    """Return the network of pytorch-fid."""
    from pytorch_fid.inception import FIDInceptionA, FIDInceptionC, FIDInceptionE_1, FIDInceptionE_2
    from torchvision.models import inception_v3

    network = inception_v3(num_classes=1008, aux_logits=False, weights=None, init_weights=False)
    for name, ins, pool in (("Mixed_5b", 192, 32), ("Mixed_5c", 256, 64), ("Mixed_5d", 288, 64)):
        setattr(network, name, FIDInceptionA(ins, pool))
    for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        setattr(network, name, FIDInceptionC(768, channels_7x7=width))
    network.Mixed_7b, network.Mixed_7c = FIDInceptionE_1(1280), FIDInceptionE_2(2048)
    return network


def upscaler() -> nn.Module:
    """Return the small general network of Real-ESRGAN."""
    from spandrel.architectures.Compact import CompactArch  # noqa: F401
    from spandrel.architectures.Compact.__arch.SRVGG import SRVGGNetCompact

    return SRVGGNetCompact(num_in_ch=3, num_out_ch=3, num_feat=16, num_conv=4, upscale=4, act_type="prelu")


def mprnet() -> nn.Module:
    """Return MPRNet, from the extra package."""
    from spandrel_extra_arches.architectures.MPRNet.__arch.MPRNet import MPRNet

    return MPRNet(n_feat=16, scale_unetfeats=8, scale_orsnetfeats=8, num_cab=2)


def dists_weights(path: Path) -> None:
    network = Dists()
    torch.save({"alpha": network.alpha.data, "beta": network.beta.data}, path)


def statistics(path: Path) -> None:
    """Write a pristine model of NIQE: any mean, a well-conditioned covariance, the published window's shape."""
    rng = np.random.default_rng(0)
    spread, line = rng.normal(size=(36, 36)), np.exp(-((np.arange(7) - 3) ** 2) / (2 * (7 / 6) ** 2))
    window = np.outer(line, line)
    np.savez(
        path,
        mu_pris_param=rng.uniform(0.2, 2, (1, 36)),
        cov_pris_param=spread @ spread.T / 36 + 0.1 * np.eye(36),
        gaussian_window=window / window.sum(),
    )


def machine(path: Path) -> None:
    """Write a support vector machine of OpenCV's layout with five vectors."""
    rng = np.random.default_rng(0)
    vectors = "\n".join(f"      - [ {', '.join(f'{x:.6f}' for x in row)} ]" for row in rng.uniform(-1, 1, (5, 36)))
    alpha = ", ".join(f"{x:.6f}" for x in rng.normal(0, 30, 5))
    path.write_text(
        "%YAML:1.0\n---\nopencv_ml_svm:\n   format: 3\n   svmType: EPS_SVR\n   kernel:\n      type: RBF\n"
        f"      gamma: 5.0e-02\n   var_count: 36\n   sv_total: 5\n   support_vectors:\n{vectors}\n"
        f"   decision_functions:\n      -\n         sv_count: 5\n         rho: -40.\n         alpha: [ {alpha} ]\n"
        "         index: [ 0, 1, 2, 3, 4 ]\n"
    )


def feature_range(path: Path) -> None:
    numbers = ", ".join(["0."] * 36 + ["5."] * 36)
    path.write_text(
        f"%YAML:1.0\n---\nrange: !!opencv-matrix\n   rows: 2\n   cols: 36\n   dt: f\n   data: [ {numbers} ]\n"
    )


def drawn(network: nn.Module, size: float) -> dict[str, torch.Tensor]:
    """Return random weights for a network whose weights are 0 or 1 when it is made."""
    rng = generator(0)
    return {name: size * torch.randn(tensor.shape, generator=rng) for name, tensor in network.state_dict().items()}


def r_lpips(path: Path) -> None:
    """Write the state of the package's network, with the backbone and the linear heads under both their names."""
    from lpips import LPIPS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lpips calls torchvision by its old names
        torch.save(LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).state_dict(), path)


def lipsim_network(path: Path) -> None:
    """Write weights as data-parallel training names them, each under the name of its part, too."""
    state = {f"module.backbone.model.{name}": tensor for name, tensor in drawn(lipsim.LipSimNetwork(), 0.5).items()}
    renamed = {
        name.replace("base.1.", "convs.").replace("base.2.", "linear."): tensor for name, tensor in state.items()
    }
    torch.save({"epoch": 1, "model_state_dict": state | renamed}, path)


def r_clip_file(path: Path) -> None:
    """Write the encoder of images, beside a tensor of the encoder of texts."""
    state = {f"visual.{name}": tensor for name, tensor in drawn(SMALL_ENCODER(), 0.2).items()}
    torch.save(state | {"token_embedding.weight": torch.zeros(3, 2)}, path)


def dreamsim_archive(path: Path) -> None:
    """Write low-rank updates of two layers, with their settings."""
    rng, updates = generator(0), {}
    for layer in ("blocks.0.attn.qkv", "blocks.1.attn.qkv"):
        for name, shape in (("lora_A", (2, 24)), ("lora_B", (72, 2))):
            updates[f"{dreamsim.PREFIX}{layer}.{name}.weight"] = 0.1 * torch.randn(shape, generator=rng)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{dreamsim.FOLDER}/adapter_config.json", json.dumps({"lora_alpha": 0.5, "r": 2}))
        archive.writestr(f"{dreamsim.FOLDER}/adapter_model.safetensors", save(updates))


PHOTOS = (4, 3, 96, 128)
"""The shape of random inputs for metrics of photographs."""
FILES: Mapping[str, Callable[[Path], None]] = (
    {
        "squeezenet1-1-features": saved(lambda: features_only(vision("squeezenet1_1"), "")()),
        "alexnet-imagenet": saved(lambda: features_only(vision("alexnet"))()),
        "vgg16-imagenet": saved(vgg16_features),
        "dists-weights": dists_weights,
        "fid-inception": saved(inception, seen=(2, 3, 299, 299)),
        "siggraph17-colorizer": saved(partial(Colorizer, COLORIZER_WIDTH), seen=(2, 4, 64, 64)),
        "guided-diffusion-256": saved(SMALL_UNET),
        "disco-pgd": saved(LocalImplicit, lambda tensors: {"model": {"name": "liif", "args": {}, "sd": tensors}}),
        "fcn-mse": saved(ColourFilter, lambda tensors: {"model": tensors}),
        "mprnet-denoising": saved(mprnet, lambda tensors: {"state_dict": tensors}),
        "realesr-general-x4v3": saved(upscaler, lambda tensors: {"params": tensors}),
        "realesr-general-wdn-x4v3": saved(upscaler, lambda tensors: {"params": tensors}),
        "dncnn-25": saved(SMALL_DNCNN),
        "brisque-live-model": machine,
        "brisque-live-range": feature_range,
        "niqe-pristine": statistics,
        "cnniqa-live": saved(CnniqaNet),
        "fpr-natural-images": saved(
            SMALL_FPR, lambda tensors: {"state_dict": {f"module.{k}": v for k, v in tensors.items()}}
        ),
        "koncept512": saved(lambda: koncept512.KonCeptNet(), seen=(2, 3, 96, 128)),
        "linearity": saved(LinearityNet, lambda tensors: linear(tensors), PHOTOS),
        "meta-iqa": saved(MetaIqaNet, seen=PHOTOS),
        "resnet50-imagenet": saved(partial(get_model, "resnet50", weights=None)),
        "spaq-baseline": saved(SpaqNet, lambda tensors: {"state_dict": tensors}, PHOTOS),
    }
    | {
        f"cifar10-{name}": saved(
            partial(CifarResNet, blocks),
            lambda tensors: {
                "state_dict": {f"module.{k}": v for k, v in tensors.items() if not k.endswith("num_batches_tracked")}
            },
            (8, 3, 32, 32),
        )
        for name, (blocks, _, _) in DEPTHS.items()
    }
    | {asset.name: r_lpips for asset in R_LPIPS.values()}
    | {asset.name: lipsim_network for asset in lipsim.ASSETS.values()}
    | {asset.name: r_clip_file for asset in r_clip.ASSETS.values()}
    | {
        "milo": saved(milo.MiloNetwork),
        "dino-vitb16": lambda path: torch.save(drawn(SMALL_VIT(), 0.2), path),
        "dreamsim-dino-vitb16": dreamsim_archive,
    }
)
"""Name of an asset -> what writes its stand-in."""


def linear(tensors: dict[str, torch.Tensor]) -> object:
    """Return the published file of Linearity: the network, and the line that maps its answer to opinion scores."""
    model = {k: v for k, v in tensors.items() if k not in ("slope", "offset")}
    return {"model": model, "k": [20.0, 20.0, 20.0], "b": [50.0, 50.0, 50.0]}


def pictures(folder: Path, names: list[str], size: tuple[int, int] = (40, 32)) -> None:
    """Write random images of the size (width, height), px."""
    rng = np.random.default_rng(0)
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        small.resize(size, Image.Resampling.BICUBIC).save(file)


def table(file: Path, head: str, rows: list[str]) -> None:
    file.write_text("\n".join([head, *rows]) + "\n")


def attacked(folder: Path) -> None:
    names = [f"{number}.png" for number in range(6)]
    for kind in ("originals", "attacked"):
        pictures(folder / kind, names)
    rows = [f"attacked/{n},originals/{n},{n},harness/embedded-cnn,ifgsm,weak,{i},p{i}" for i, n in enumerate(names)]
    table(folder / "index.csv", "file,original,name,metric,attack,strength,mos,photograph", rows)


def koniq10k(folder: Path) -> None:
    names = [f"{number}.jpg" for number in range(10_001, 10_025)]
    pictures(folder / "512x384", names)
    rows = [
        f'"{n}",0,0.1,0.2,0.4,0.3,100,{30 + i},0.1,{("training", "validation", "test")[i % 3]}'
        for i, n in enumerate(names)
    ]
    table(folder / "koniq10k_distributions_sets.csv", '"image_name",c1,c2,c3,c4,c5,c_total,MOS,SD,set', rows)


def kadid10k(folder: Path) -> None:
    names = [f"I{i:02}_{d:02}_{level:02}.png" for i in range(1, 4) for d in (1, 2) for level in (1, 3, 4, 5)]
    pictures(folder / "images", names)
    table(
        folder / "dmos.csv",
        "dist_img,ref_img,dmos,var",
        [f"{n},{n[:3]}.png,{1 + i / 10:.2f},0.5" for i, n in enumerate(names)],
    )


def nips2017(folder: Path) -> None:
    ids = [f"{number:016x}" for number in range(12)]
    pictures(folder / "images", [f"{name}.png" for name in ids], (32, 32))
    table(folder / "images.csv", "ImageId,URL,TrueLabel,TargetClass", [f"{name},https://a.example,1,2" for name in ids])


def huggingface(folder: Path) -> None:
    """Write what `Dataset.save_to_disk` of the library datasets does."""
    pictures(folder / "drawn", [f"{number}.png" for number in range(6)])
    images = [{"bytes": file.read_bytes(), "path": None} for file in sorted((folder / "drawn").iterdir())]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, kind), "mos": pa.array(range(6), pa.float32())})
    with pa.OSFile(str(folder / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    (folder / "dataset_info.json").write_text('{"features": {"image": {"_type": "Image"}}}')


def agiqa3k(folder: Path) -> None:
    names = [f"AttnGAN_normal_{number:03}.jpg" for number in range(12)]
    pictures(folder / "images", names)
    table(
        folder / "data.csv",
        "name,prompt,adj1,adj2,style,mos_quality,std_quality,mos_align,std_align",
        [f"{n},a house,,,,{i / 3:.3f},0.2,1.0,0.2" for i, n in enumerate(names)],
    )


def scored_folder(folder: Path) -> None:
    names = [f"{number}.png" for number in range(12)]
    pictures(folder, names)
    table(folder / "mos.csv", "image,mos", [f"{name},{i}" for i, name in enumerate(names)])


def ladder(folder: Path) -> None:
    pictures(folder, [f"{number}.png" for number in range(3)], (256, 256))


def classes(folder: Path) -> None:
    pictures(folder, [f"s{label}/{number}.png" for label in range(1, 4) for number in range(1, 6)], (32, 32))


def imagenette(folder: Path) -> None:
    pictures(folder, [f"{p}/n{label:08}/{n}.JPEG" for p in ("train", "val") for label in (1, 2, 3) for n in range(4)])


def caltech101(folder: Path) -> None:
    classes(folder / "101_ObjectCategories")


def stanford_dogs(folder: Path) -> None:
    pictures(folder, [f"Images/n0208{n}-breed/n0208{n}_{i}.jpg" for n in range(3) for i in range(4)])


def celeba(folder: Path) -> None:
    names = [f"{number:06}.jpg" for number in range(1, 13)]
    pictures(folder / "img_align_celeba", names, (40, 48))
    (folder / "identity_CelebA.txt").write_text("".join(f"{n} {i % 3 + 1}\n" for i, n in enumerate(names)))


def annotated(folder: Path) -> None:
    pictures(folder, [f"{sign}{n}/{n}_{end}.png" for n in (1, 2) for sign, end in (("", "ori"), ("", "a"), ("-", "b"))])


def bapps(folder: Path) -> None:
    for split, people, names in (
        ("2afc/val", 5, ("ref", "p0", "p1", "judge")),
        ("2afc/train", 2, ("ref", "p0", "p1", "judge")),
        ("jnd/val", 3, ("p0", "p1", "same")),
    ):
        *images, verdict = names
        subfolder = folder / split / "cnn"
        pictures(subfolder, [f"{name}/{number:06}.png" for name in images for number in range(3)], (64, 64))
        (subfolder / verdict).mkdir()
        for number in range(3):
            np.save(subfolder / verdict / f"{number:06}.npy", np.array([number / people], np.float32))


def nights(folder: Path) -> None:
    lines = ["id,left_vote,right_vote,votes,ref_path,left_path,right_path,split,is_imagenet"]
    for number, split in enumerate(("test", "test", "test", "val", "train")):
        names = f"ref/000/{number:03}.png", *(f"distort/000/{number:03}_{side}.png" for side in (0, 1))
        pictures(folder, names, (64, 64))
        lines.append(f"{number},{1 - number % 2},{number % 2},{6 + number},{','.join(names)},{split},{number > 1}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def tid2013(folder: Path) -> None:
    names = [
        f"i{image:02}_{distortion:02}_{level}.bmp" for image in (1, 2) for distortion in (1, 2) for level in (1, 5)
    ]
    pictures(folder / "distorted_images", names)
    pictures(folder / "reference_images", ["I01.BMP", "I02.BMP"])
    (folder / "mos_with_names.txt").write_text("".join(f"{3 + i / 7:.5f} {n}\n" for i, n in enumerate(names)))


def bits(rows: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random table of bits ``(rows, columns)`` and classes ``(rows,)`` from 1, each class at least once."""
    return np.random.default_rng(0).integers(0, 2, (rows, columns)), np.arange(rows) % classes + 1


def class_first(file: Path, columns: int, classes: int) -> None:
    features, labels = bits(2 * classes, columns, classes)
    np.savetxt(file, np.column_stack([labels, features]), "%d", ",")


def texas100(folder: Path) -> None:
    features, labels = bits(200, 61, 100)
    np.savetxt(folder / "feats", features, "%d", ",")
    np.savetxt(folder / "labels", labels, "%d")


def cifar100(folder: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (200, 2 + 3 * 32 * 32), dtype=np.uint8)
    rows[:, 0], rows[:, 1] = np.arange(200) % 20, np.arange(200) % 100
    rows[:150].tofile(folder / "train.bin")
    rows[150:].tofile(folder / "test.bin")


def cifar10(folder: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (120, 1 + 3 * 32 * 32), dtype=np.uint8)
    rows[:, 0] = np.arange(120) % 10
    for name, block in zip((*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"), np.split(rows, 6), strict=True):
        block.tofile(folder / f"{name}.bin")


def ch_mnist(folder: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (60, 64 * 64 + 1))
    rows[:, -1] = 1 + np.arange(60) % 8
    head = ",".join([*(f"pixel{number:04d}" for number in range(64 * 64)), "label"])
    np.savetxt(folder / "hmnist_64_64_L.csv", rows, "%d", ",", header=head, comments="")


def mnist(folder: Path) -> None:
    digits = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    labels = (np.arange(40) % 10).astype(np.uint8)
    for content, array in (("images-idx3", digits), ("labels-idx1", labels)):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (folder / f"train-{content}-ubyte").write_bytes(head + array.tobytes())


DATA: Mapping[str, Callable[[Path], None]] = {
    "koniq10k": koniq10k,
    "kadid10k": kadid10k,
    "nips2017": nips2017,
    "agiqa-3k": agiqa3k,
    "folder": scored_folder,
    "attacked-originals": attacked,
    "huggingface": huggingface,
    "folder-ladder": ladder,
    "class-folder": classes,
    "annotated": annotated,
    "bapps": bapps,
    "nights": nights,
    "tid2013": tid2013,
    "location30": lambda folder: class_first(folder / "bangkok", 446, 30),
    "purchase100": lambda folder: class_first(folder / "dataset_purchase", 600, 100),
    "texas100": texas100,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "ch-mnist": ch_mnist,
    "image-folders": classes,
    "mnist": mnist,
    "imagenette": imagenette,
    "caltech101": caltech101,
    "stanford-dogs": stanford_dogs,
    "celeba": celeba,
}
"""Name of a data set -> what writes its stand-in into a folder of that name."""

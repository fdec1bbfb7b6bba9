"""The networks of the profile `official` in their published shapes, without weights, and a step with each.

`CATALOGUE` has one of each. What a package lacks, or cannot make without a network, is told by `Network.made`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from imharness.errors import Unavailable

SIDES = (384, 512)
"""Height and width of the images of KonIQ-10k and KADID-10k, px."""
PATCH = 64
"""The side of BAPPS's patches, px."""
CLASSES = 10


@dataclass(frozen=True)
class Assumed:
    """The operations that `harness run --dry-run` counts for an image: of a pass forward, and of a step."""

    forward: float
    step: float


def _plain(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    output: torch.Tensor = network(images)
    return output


def _frozen(network: nn.Module) -> nn.Module:
    return network.eval().requires_grad_(False)


def _nothing() -> Assumed | None:
    return None


@dataclass(frozen=True)
class Network:
    """A network, how it is called, the shape of an image, and what a step with it is.

    Attacks need the gradient of an image, training that of the weights (`trains`), and an inversion of gradients that
    of an image through that of the weights (`inverts`). `batch`: the images that are measured at once.
    """

    make: Callable[[], nn.Module]
    image: tuple[int, ...]
    call: Callable[[nn.Module, torch.Tensor], torch.Tensor] = _plain
    trains: bool = False
    inverts: bool = False
    batch: int = 16
    assumed: Callable[[], Assumed | None] = _nothing

    def made(self) -> nn.Module:
        """Return the network as it is used; raises `Unavailable` where its package is not installed."""
        try:
            network = self.make()
        except ImportError as error:
            raise Unavailable(f"unavailable: the package {error.name or error} is not installed") from error
        return network.train() if self.trains else _frozen(network)

    def inputs(self, count: int, device: torch.device | None = None) -> torch.Tensor:
        """Return images of a step, grey with a slope: their values change no time."""
        values = torch.linspace(0.1, 0.9, self.image[-1], device=device)
        return values.expand(count, *self.image).clone()

    def forward(self, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        """Return the answers to images, without gradients."""
        with torch.no_grad():
            return self.call(network, images)

    def step(self, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        """Take a step: of training, of an attack by the sign of the gradient, or of an inversion of gradients."""
        if self.trains:
            for parameter in network.parameters():
                parameter.grad = None
            loss = self.call(network, images).float().sum()
            loss.backward()
            return loss.detach()
        leaf = images.detach().requires_grad_(True)
        output = _matched(network, leaf) if self.inverts else self.call(network, leaf).float()
        output.sum().backward()
        return (images + leaf.grad.sign() / 255).clamp(0, 1)


def _matched(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return how far the gradients of images are from the direction of others, as `harness/invgrad` does."""
    from imharness_reconstruction.inversion import CosineDistance
    from imharness_reconstruction.per_image import image_gradients

    labels = torch.arange(len(images), device=images.device) % CLASSES
    ours = list(image_gradients(network, images, labels).values())
    return CosineDistance.apply(*ours, *(torch.ones_like(gradient) for gradient in ours))  # type: ignore[no-any-return]


def _quality(name: str) -> Callable[[], Assumed]:
    def assumed() -> Assumed:
        from imharness_iqa.workload import GIGA, GRADIENT, METRICS

        return Assumed(GIGA * METRICS[name], GIGA * METRICS[name] * GRADIENT)

    return assumed


def _purification(name: str) -> Callable[[], Assumed]:
    def assumed() -> Assumed:
        from imharness_iqa.workload import DEFENSES, GIGA, GRADIENT

        return Assumed(GIGA * DEFENSES[name], GIGA * DEFENSES[name] * GRADIENT)

    return assumed


def _diffusion() -> Assumed:
    from imharness_iqa.workload import DIFFUSION, GIGA, GRADIENT

    return Assumed(STEPS * GIGA * DIFFUSION, STEPS * GIGA * DIFFUSION * GRADIENT)


def _perceptual(name: str) -> Callable[[], Assumed]:
    def assumed() -> Assumed:
        from imharness_perceptual.track import PASS

        return Assumed(PASS[name], 3 * PASS[name])

    return assumed


def _membership() -> Assumed:
    from imharness_membership.workload import PASSES, wide_residual

    return Assumed(wide_residual(28, 2), PASSES * wide_residual(28, 2))


def _inversion(name: str, training: bool = False) -> Callable[[], Assumed]:
    def assumed() -> Assumed:
        from imharness_reconstruction.workload import INVERT, PASS, TRAIN

        return Assumed(PASS[name], (TRAIN if training else INVERT) * PASS[name])

    return assumed


STEPS = 2
"""Steps of DiffPure that are measured: each is computed again for its gradient, so that one is kept at a time."""


def _koncept() -> nn.Module:
    from imharness_iqa.metrics.koncept512 import KonCeptNet

    return KonCeptNet()


def _folded_koncept() -> nn.Module:
    """Return the network as it is attacked: its batch norms are part of the convolutions before them."""
    network = _koncept()
    for module in network.modules():
        if hasattr(module, "bn"):
            module.bn = nn.Identity()
    return network


def _linearity() -> nn.Module:
    from imharness_iqa.metrics.linearity import LinearityNet

    return LinearityNet()


def _maniqa() -> nn.Module:
    import timm
    from pyiqa.archs.maniqa_arch import MANIQA

    plain = timm.create_model
    with patch.object(timm, "create_model", lambda name, pretrained: plain(name, pretrained=False)):
        return MANIQA(pretrained=False, test_sample=1)


def _seen_by_maniqa(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    from imharness_iqa.metrics.pyiqa_metrics import MANIQA_SIZE

    return _plain(network, F.interpolate(images, MANIQA_SIZE, mode="bilinear", antialias=True))


def _clip_iqa() -> nn.Module:
    from pyiqa.archs import clipiqa_arch
    from pyiqa.archs.clip_model import CLIP

    class Still(CLIP):  # type: ignore[misc]
        """Stays where it is: the metric moves it to its images in each call."""

        def to(self, *args: Any, **kwargs: Any) -> nn.Module:
            return self

    def untrained(name: str, device: str) -> nn.Module:
        return Still(1024, 224, (3, 4, 6, 3), 64, None, 77, 49_408, 512, 8, 12)

    with patch.object(clipiqa_arch, "load", untrained):
        network = clipiqa_arch.CLIPIQA(model_type="clipiqa+", pretrained=False)
    network.add_module("clip", network.clip_model[0])  # kept in a list, where its weights are not found
    return network


def _mprnet() -> nn.Module:
    from spandrel_extra_arches.architectures.MPRNet import MPRNet

    return MPRNet(n_feat=80, scale_unetfeats=48, scale_orsnetfeats=32)


def _first(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the last stage's images, which MPRNet gives first."""
    output: torch.Tensor = network(images)[0]
    return output


def _upscaler() -> nn.Module:
    from spandrel.architectures.Compact import Compact

    return Compact(num_conv=32)


def _shrunk(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    large = network(images).clamp(0, 1)
    return F.interpolate(large, images.shape[2:], mode="bicubic", antialias=True).clamp(0, 1)


def _disco() -> nn.Module:
    from imharness_iqa.restorers import LocalImplicit

    return LocalImplicit()


def _filter() -> nn.Module:
    from imharness_iqa.restorers import ColourFilter

    return ColourFilter()


def _guided() -> nn.Module:
    from imharness_vision.diffusion import GuidedUNet

    return GuidedUNet()


def _noised(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return images after some steps, each of which is computed again for the gradient, as DiffPure does."""
    x = 2 * F.interpolate(images, (256, 256), mode="bilinear") - 1
    for number in reversed(range(STEPS)):
        x = checkpoint(_denoised, network, x, number, use_reentrant=False, preserve_rng_state=False)
    return F.interpolate(x / 2 + 0.5, images.shape[2:], mode="bilinear")


def _denoised(network: nn.Module, x: torch.Tensor, number: int) -> torch.Tensor:
    noise, spread = network(x, torch.full((len(x),), number, device=x.device)).chunk(2, dim=1)
    return x - 0.01 * noise + 0.01 * spread.exp()


def _vgg() -> nn.Module:
    from torchvision.models import vgg16

    features: nn.Module = vgg16().features
    return features


def _transformer() -> nn.Module:
    from imharness_vision.vit import VisionTransformer

    return VisionTransformer()


def _at_side(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    from imharness_vision.perceptual import normalised
    from imharness_vision.vit import at_side

    return _plain(network, normalised(at_side(images)))


def _lipsim() -> nn.Module:
    from imharness_perceptual.metrics.lipsim import LipSimNetwork

    network = LipSimNetwork()
    network.settle()
    return network


def _lipschitz(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    from imharness_vision.vit import at_side

    return _plain(network, at_side(images))


def _wide() -> nn.Module:
    from imharness_membership.models.wrn import _network

    return _network(3, 100, blocks=4, width=2)


def _resnet20() -> nn.Module:
    from imharness_vision.cifar_resnet import CifarResNet

    return CifarResNet(3, 100, 16)


def _densenet() -> nn.Module:
    from imharness.contracts.randomness import generator
    from imharness_membership.models.torchvision_nets import DenseNet121

    return DenseNet121().build(torch.device("cpu"))((3, 32, 32), 100, generator(0))


def _resnet18() -> nn.Module:
    from imharness.contracts.randomness import generator
    from imharness_membership.models.torchvision_nets import ResNet18

    return ResNet18().build(torch.device("cpu"))((3, 32, 32), 100, generator(0))


LARGE, SMALL, PATCHES = (3, *SIDES), (3, 32, 32), (3, PATCH, PATCH)
CATALOGUE = {
    "koncept512": Network(_folded_koncept, LARGE, assumed=_quality("koncept512")),
    "linearity": Network(_linearity, LARGE, assumed=_quality("linearity")),
    "maniqa": Network(_maniqa, LARGE, _seen_by_maniqa, assumed=_quality("maniqa")),
    "clip-iqa-plus": Network(_clip_iqa, LARGE, assumed=_quality("clip-iqa-plus")),
    "fcn": Network(_filter, LARGE, assumed=_purification("fcn")),
    "disco": Network(_disco, LARGE, batch=8, assumed=_purification("disco")),
    "real-esrgan": Network(_upscaler, LARGE, _shrunk, batch=8, assumed=_purification("real-esrgan")),
    "mprnet": Network(_mprnet, LARGE, _first, batch=2, assumed=_purification("mprnet")),
    f"diffpure, {STEPS} steps": Network(_guided, LARGE, _noised, batch=4, assumed=_diffusion),
    "lpips on vgg16, 64 px": Network(_vgg, PATCHES, batch=64, assumed=_perceptual("vgg")),
    "dreamsim, 64 px": Network(_transformer, PATCHES, _at_side, batch=64, assumed=_perceptual("harness/dreamsim")),
    "lipsim, 64 px": Network(_lipsim, PATCHES, _lipschitz, batch=64, assumed=_perceptual("harness/lipsim")),
    "training koncept512": Network(_koncept, LARGE, trains=True, batch=8, assumed=_quality("koncept512")),
    "training wrn-28-2": Network(_wide, SMALL, trains=True, batch=256, assumed=_membership),
    "training resnet20": Network(_resnet20, SMALL, trains=True, batch=128, assumed=_inversion("resnet20", True)),
    "training densenet121": Network(_densenet, SMALL, trains=True, batch=128, assumed=_inversion("densenet121", True)),
    "training resnet18": Network(_resnet18, SMALL, trains=True, batch=128, assumed=_inversion("resnet18", True)),
    "inverting resnet20": Network(_resnet20, SMALL, inverts=True, batch=128, assumed=_inversion("resnet20")),
    "inverting densenet121": Network(_densenet, SMALL, inverts=True, batch=32, assumed=_inversion("densenet121")),
}
"""Name -> network; images of 384x512 px unless a name says another size, 32x32 px where classifiers are trained."""


def smaller(network: Network, side: int, count: int) -> Network:
    """Return a network on square images of `side` px, if those of its own are larger, and at most `count` of them."""
    shape = (network.image[0], *(min(length, side) for length in network.image[1:]))
    return replace(network, image=shape, batch=min(network.batch, count))


def facts(network: Network) -> dict[str, Any]:
    """Return the operations that are assumed for an image, in units of 1e9; empty where none are."""
    assumed = network.assumed()
    return {} if assumed is None else {"assumed_forward": assumed.forward / 1e9, "assumed_step": assumed.step / 1e9}

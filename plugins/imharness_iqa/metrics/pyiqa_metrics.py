"""MANIQA, CLIP-IQA+, TOPIQ and PAQ2PIQ as the package pyiqa computes them (extra `pyiqa`).

pyiqa's licence (PolyForm Noncommercial, NTU S-Lab) forbids commercial use. pyiqa downloads its weights into torch's hub
folder when a metric is made for the first time. Building a metric here never downloads them, and opens them as weights
only: fetch them by hand.
"""

from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, MethodType
from typing import ClassVar

import torch
import torch.nn.functional as F

from imharness.errors import Unavailable
from imharness.images import Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_vision.offline import offline

LABEL = "pyiqa, non-commercial licence"
MANIQA_SIZE = (224, 224)


class _Pyiqa(NoReferenceMetric):
    """A metric of pyiqa."""

    name: ClassVar[str]
    weights: ClassVar[str]  # as pyiqa keeps the file: by the last part of its address, as it is quoted there

    def require(self) -> None:
        """Raise `Unavailable` without the package or without the weights that it downloads."""
        if find_spec("pyiqa") is None:
            raise Unavailable("the package pyiqa is not installed", "pip install 'image-privacy-harness[pyiqa]'")
        if not (Path(torch.hub.get_dir()) / "pyiqa" / self.weights).is_file():
            raise Unavailable(f"pyiqa has not fetched {self.weights}", self._remedy())

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric, with gradients."""
        network = self.network(device)

        def score(images: Images) -> Scores:
            return network(images).flatten()

        return score

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the frozen network of pyiqa; raises `Unavailable` where it would download something."""
        import pyiqa

        with offline(self._remedy()):
            return pyiqa.create_metric(self.name, device=device, as_loss=True).eval().requires_grad_(False).net

    def _remedy(self) -> str:
        return f"python -c \"import pyiqa; pyiqa.create_metric('{self.name}')\""


def _info(
    id: str, bounds: tuple[float, float], paper: str, version: str = "1", architecture: str = "transformer"
) -> MetricInfo:
    """Return the facts about a metric that tables show; the architecture is as Guardians of Image Quality groups it."""
    return MetricInfo(
        id=id,
        version=version,
        higher_means="better_quality",
        bounds=bounds,
        unit="1",
        labelled=LABEL,
        architecture=architecture,
        paper=paper,
    )


class Maniqa(_Pyiqa):
    """Transformer with attention over channels and space, trained on KonIQ-10k (pyiqa, non-commercial).

    Images are resized to 224x224 px, as in the code of Guardians of Image Quality, and scored whole. pyiqa itself cuts
    squares out of an image; it would enlarge one of 224x224 px to 225x225 px, and leave out a row and a column.
    """

    name, weights = "maniqa", "ckpt_koniq10k.pt"
    info = _info("harness/maniqa", (0.0, 1.0), "yang2022", version="3")

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric, with gradients."""
        network = self.network(device)

        def score(images: Images) -> Scores:
            return network(F.interpolate(images, MANIQA_SIZE, mode="bilinear", antialias=True)).flatten()

        return score

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the frozen network of pyiqa, changed such that it does not cut squares out of an image.

        Its method `forward` calls the function `uniform_crop` of its module. Here it gets another one of that name,
        which returns the image; the module of pyiqa stays as it is.
        """
        network = super().network(device)
        original_forward = network.forward.__func__
        names = {**original_forward.__globals__, "uniform_crop": lambda images, **sizes: images}
        network.forward = MethodType(
            FunctionType(original_forward.__code__, names, closure=original_forward.__closure__), network
        )
        return network


class ClipIqaPlus(_Pyiqa):
    """CLIP with learnt prompts (pyiqa, non-commercial); bounds are the range of a softmax."""

    name, weights = "clipiqa+", "CLIP-IQA%2B_learned_prompts-603f3273.pth"
    info = _info("harness/clip-iqa-plus", (0.0, 1.0), "wang2023")


class Topiq(_Pyiqa):
    """ResNet-50 with attention from semantics to distortions (pyiqa, non-commercial); bounds as published."""

    name, weights = "topiq_nr", "cfanet_nr_koniq_res50-9a73138b.pth"
    info = _info("harness/topiq", (0.22, 0.82), "chen2024", version="2")


class Paq2Piq(_Pyiqa):
    """ResNet-18 with region pooling, trained on patches and pictures (pyiqa, non-commercial)."""

    name, weights = "paq2piq", "P2P_RoIPoolModel-fit.10.bs.120-ca69882e.pth"
    info = _info("harness/paq2piq", (58.3803939819336, 84.1711196899414), "ying2020", architecture="CNN")


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Maniqa(), ClipIqaPlus(), Topiq(), Paq2Piq()]

"""SemSim as a metric: the distance of features of a network trained on what people recognised.

The embedded weights were trained on photographs that the embedded run does not use, with a classifier's answers in
place of people's. The commands were `harness run --track reconstruction --dataset
'thumbnails[per_photograph=6,shows=textures]' --attack invgrad`, `harness reconstruction export --out judged` and
`harness train semsim --annotations judged --backbone lenet --epochs 30`.
"""

from importlib.resources import files
from pathlib import Path

import torch
from pydantic import Field

from imharness.errors import Unavailable
from imharness.files import file_digest, read_tensors
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_reconstruction.semsim import Backbone, SemSimNet

EMBEDDED = "embedded-semsim.safetensors"


class SemSim(FullReferenceMetric):
    """Distance of features that were trained to tell recognised from unrecognised reconstructions."""

    info = MetricInfo(
        id="harness/semsim",
        version="1",
        higher_means="less_leakage",
        unit="1",
        labelled="a small network trained for this package, on a classifier's answers in place of people's",
        paper="sun2023",
    )
    backbone: Backbone = Field(default="lenet", description="Network of the features.")
    weights: str = Field(default="", description="File that `harness train semsim` wrote; empty: the embedded one.")

    def require(self) -> None:
        """Raise `Unavailable` unless the weights are here; the package ships some for the LeNet only."""
        self._file()

    def content(self) -> str:
        """Return a digest of the weights."""
        try:
            return file_digest(self._file())
        except Unavailable:
            return ""

    def build(self, device: torch.device) -> FullReferenceScore:
        network = SemSimNet(self.backbone)
        network.load_state_dict({name: tensor.float() for name, tensor in read_tensors(self._file()).items()})
        network.to(device).eval().requires_grad_(False)

        def score(images: Images, reference: Images) -> Scores:
            return network.distance(images, reference)

        return score

    def _file(self) -> Path:
        shipped = Path(str(files("imharness_reconstruction") / "weights" / EMBEDDED))
        place = Path(self.weights) if self.weights else shipped
        if not place.is_file() or (not self.weights and self.backbone != "lenet"):
            raise Unavailable(
                f"weights of SemSim with {self.backbone} are not on this machine",
                f"harness train semsim --annotations FOLDER --backbone {self.backbone}",
            )
        return place


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [SemSim()]

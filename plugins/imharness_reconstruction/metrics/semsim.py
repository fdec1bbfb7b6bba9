"""SemSim as a metric: the distance of features of a network trained on what people recognised.

Sun et al., NeurIPS 2023, sections 4.3 and 5. In tables 1 and 2 a network measures only the data set that its training
left out: `unseen` names that data set, and the track plans the metric on no other.

The embedded weights were trained on photographs that the embedded run does not use, with a classifier's answers in
place of people's. The commands were `harness run --track reconstruction --dataset
'thumbnails[per_photograph=6,shows=textures]' --attack invgrad`, `harness reconstruction export --out judged` and
`harness train semsim --annotations judged --backbone lenet --epochs 30`.
"""

from importlib.resources import files
from pathlib import Path

import torch
from pydantic import Field

from imharness.data import cache_folder, data_folder
from imharness.errors import Unavailable
from imharness.files import file_digest
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_reconstruction.semsim import Backbone, SemSimNet
from imharness_vision.weights import weights_in

FILE = "semsim.safetensors"
"""The name that `harness train semsim` gives to its weights."""
UNSEEN, EACH = r"unseen=[^,\]]+", "unseen=each"
"""Networks that were each trained without one data set are one metric in tables: there, the first text in its label is
replaced by the second."""
EMBEDDED = "embedded-semsim.safetensors"


class SemSim(FullReferenceMetric):
    """Distance of features that were trained to separate recognised and unrecognised reconstructions."""

    info = MetricInfo(
        id="harness/semsim",
        version="1",
        higher_means="less_leakage",
        unit="1",
        labelled="a small network trained for this package, on a classifier's answers in place of people's",
        paper="sun2023",
    )
    backbone: Backbone = Field(default="lenet", description="Network of the features.")
    weights: str = Field(
        default="",
        description="File that `harness train semsim` wrote; empty: the embedded one, or one among the assets.",
    )
    unseen: str = Field(
        default="",
        pattern=r"^([\w.-]+/[\w.-]+)?$",
        description="Id of the data set that the training left out; it alone is measured. Empty: all are measured.",
    )

    def require(self) -> None:
        """Raise `Unavailable` unless the weights are here; the package ships some for the LeNet only."""
        if not self._file.is_file():
            left_out = f", trained without {self.unseen}," if self.unseen else ""
            further = f" --unseen {self.unseen} --attack harness/invgrad --decay none --clip 0" if self.unseen else ""
            raise Unavailable(
                f"weights of SemSim with {self.backbone}{left_out} are not on this machine",
                f"harness train semsim --annotations FOLDER --backbone {self.backbone}{further} "
                f"--out {cache_folder() / self._folder}",
            )

    @property
    def _folder(self) -> str:
        """The folder among the assets in which weights are sought."""
        return f"trained/semsim-{self.backbone}" + (f"-without-{self.unseen.replace('/', '-')}" if self.unseen else "")

    @property
    def _file(self) -> Path:
        """The file that is named, the one that ships, or the one among the assets; it need not be there."""
        if self.weights:
            return Path(self.weights)
        if self.backbone == "lenet" and not self.unseen:
            return Path(str(files("imharness_reconstruction") / "weights" / EMBEDDED))
        try:
            return data_folder(self._folder, "harness train semsim") / FILE
        except Unavailable:
            return Path()

    def content(self) -> str:
        """Return a digest of the weights."""
        return file_digest(self._file)

    def build(self, device: torch.device) -> FullReferenceScore:
        network = SemSimNet(self.backbone)
        network.load_state_dict({name: tensor.float() for name, tensor in weights_in(self._file).items()})
        network.to(device).eval().requires_grad_(False)

        def score(images: Images, reference: Images) -> Scores:
            return network.distance(images, reference)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [SemSim()]

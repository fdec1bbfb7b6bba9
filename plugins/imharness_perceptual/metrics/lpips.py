"""LPIPS with its backbones and variants.

Zhang et al., CVPR 2018, section 3. `lin` keeps an ImageNet backbone and learns the weights of its channels; `tune`
trains the backbone further, too; `scratch` trains it from nothing; `baseline` sets every weight to 1; `random`
does the same on an untrained backbone, as a control, and `kmeans` on one that saw images without labels. The
published `lin` weights come with the package lpips; `harness train lpips` writes `tune`, `scratch` and `kmeans`. This
package ships `scratch` on its own small backbone::

    harness train lpips --variant scratch --net embedded --train 'severity-ladder[split=train,size=64,per_photograph=4]'
        --test 'severity-ladder[size=64,per_photograph=3]' --epochs 4 --decay-epochs 4 --learning-rate 0.003
        --dropout 0

On the ladder of the 24 Kodak photographs, 480 unseen images of 64 px, its Spearman correlation with the severity is
0.8216; it is 0.8222 with all weights set to 1, and 0.7046 untrained. So training improves the backbone, and the weights
of the channels change nothing.
"""

from importlib.resources import files
from pathlib import Path

import torch
from pydantic import Field, model_validator

from imharness.data import cache_folder, data_folder
from imharness.errors import Unavailable
from imharness.files import file_digest
from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.references import ReferenceFeatures
from imharness_vision.lpips import BACKBONES, FeatureDistance, Net, Variant, not_repeated, published, untrained
from imharness_vision.weights import frozen, weights_in

PUBLISHED = ("lin", "baseline")
SHIPPED = files("imharness_perceptual") / "weights" / "embedded-lpips.safetensors"


class Lpips(FullReferenceMetric):
    """Learned perceptual distance of deep features (LPIPS 0.1); 0 for identical images."""

    info = MetricInfo(
        id="harness/lpips", version="1", higher_means="worse_quality", bounds=(0, 1), unit="1", paper="zhang2018"
    )
    net: Net = Field(default="alex", description="Backbone.")
    variant: Variant = Field(
        default="lin", description="What was trained: lin, tune, scratch, kmeans, baseline or random."
    )
    weights: str = Field(
        default="",
        description="File that `harness train lpips` wrote; empty: published, shipped or among the assets.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "Lpips":
        if self.weights and self.variant in ("baseline", "random"):
            raise ValueError(f"the variant {self.variant} has no weights of its own")
        return self

    @property
    def control(self) -> str:
        """The variant on an untrained backbone is a control."""
        return "random weights" if self.variant == "random" else ""

    def assets(self) -> tuple[Asset, ...]:
        """Return the ImageNet backbone where it is used unchanged."""
        return (BACKBONES[self.net][0],) if self._published else ()

    @property
    def _published(self) -> bool:
        return self.net != "embedded" and self.variant in PUBLISHED and not self.weights

    def require(self) -> None:
        """Raise `Unavailable` unless the weights are here."""
        super().require()
        if not self._published and self.variant != "random" and not self._file.is_file():
            folder = cache_folder() / self._folder
            raise Unavailable(
                f"weights of LPIPS, {self.variant} on {self.net}, are not on this machine",
                f"harness train lpips --variant {self.variant} --net {self.net} --train 'bapps[split=train]' "
                f"--test bapps --out {folder}",
            )

    @property
    def _folder(self) -> str:
        """The folder among the assets in which unpublished weights are sought."""
        return f"trained/lpips-{self.net}-{self.variant}"

    @property
    def _file(self) -> Path:
        """The file that is named, the one that ships, or the one among the assets; it need not be there."""
        if self.weights:
            return Path(self.weights)
        if self.net == "embedded" and self.variant == "scratch":
            return Path(str(SHIPPED))
        try:
            return data_folder(self._folder, "harness train lpips") / "lpips.safetensors"
        except Unavailable:
            return Path()

    def content(self) -> str:
        """Return a digest of the weights, unless they are published ones."""
        return file_digest(self._file)

    def build(self, device: torch.device) -> FullReferenceScore:
        network = frozen(self._network(), device)

        reference_features = ReferenceFeatures(network.features, limit=1)

        def score(images: Images, reference: Images) -> Scores:
            return network.compare(network.features(images), reference_features(not_repeated(reference)))

        return score

    def _network(self) -> FeatureDistance:
        if self._published:
            return published(self.net, heads=self.variant == "lin")
        network = untrained(self.net)
        if self.variant != "random":
            network.load_state_dict({name: t.float() for name, t in weights_in(self._file).items()})
        return network


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [
        Lpips(),
        Lpips(net="vgg"),
        Lpips(net="squeeze"),
        Lpips(net="squeeze", variant="baseline"),
        Lpips(net="squeeze", variant="random"),
        Lpips(net="embedded", variant="scratch"),
    ]

"""A classifier that `harness train classifier` trained, with its weights."""

from pathlib import Path
from typing import Literal

import torch
from pydantic import Field

from imharness.data import generator
from imharness.errors import Unavailable, UsageError
from imharness.files import file_digest, read_tensors
from imharness.gradients import Info, Model, NetworkFactory, hookimpl
from imharness_reconstruction.models.convnet8 import ConvNet8
from imharness_reconstruction.models.deep_resnets import DeepResNet
from imharness_reconstruction.models.lenet import LeNet
from imharness_reconstruction.models.resnet20 import ResNet20

ARCHITECTURES = {
    "convnet8": ConvNet8(),
    "lenet": LeNet(activation="relu", channels=16),
    "resnet20": ResNet20(),
    "resnet50": DeepResNet(),
    "resnet152": DeepResNet(layers=152),
}
Architecture = Literal["convnet8", "lenet", "resnet20", "resnet50", "resnet152"]


class SavedClassifier(Model):
    """An architecture with weights from a file."""

    info = Info(id="harness/saved-classifier", version="1")
    trained = True
    architecture: Architecture = Field(default="resnet20", description="The architecture that was trained.")
    weights: str = Field(default="", description="File that `harness train classifier` wrote.")

    def require(self) -> None:
        """Raise `Unavailable` unless the weights are here."""
        if not self.weights or not Path(self.weights).is_file():
            reason = f"there is no file {self.weights}" if self.weights else "no file of weights is named"
            raise Unavailable(reason, "harness train classifier --dataset NAME")

    def content(self) -> str:
        """Return a digest of the weights."""
        return file_digest(self.weights)

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of the one network that the file has."""
        self.require()
        weights = read_tensors(Path(self.weights))

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            classifier = ARCHITECTURES[self.architecture].build(device)(shape, classes, generator(0))
            try:
                classifier.load_state_dict(weights)
            except RuntimeError as error:
                raise UsageError(
                    f"{self.weights} does not fit {self.architecture} for {tuple(shape)} and {classes} classes: "
                    f"{str(error).splitlines()[-1].strip()}"
                ) from error
            return classifier.eval().requires_grad_(False)

        return network


@hookimpl
def components() -> list[Model]:
    return [SavedClassifier()]

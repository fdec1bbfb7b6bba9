"""A classifier as initialised: the first round of federated learning, in which gradients reveal most."""

import torch
from pydantic import Field

from imharness.gradients import Info, Model, NetworkFactory, hookimpl
from imharness_reconstruction.models.saved_classifier import ARCHITECTURES, Architecture


class Untrained(Model):
    """An architecture that is attacked as initialised, beside the same one that the run trains."""

    info = Info(id="harness/untrained", version="1", control="an untrained network")
    architecture: Architecture = Field(default="lenet", description="The architecture that is initialised.")

    def build(self, device: torch.device) -> NetworkFactory:
        return ARCHITECTURES[self.architecture].build(device)


@hookimpl
def components() -> list[Model]:
    return [Untrained()]

"""DLG: L-BFGS finds an image and a soft label whose gradient is the shared one.

Zhu, Liu & Han, "Deep Leakage from Gradients" (NeurIPS 2019), algorithm 1. All images are optimised at once; each
has its own L-BFGS memory and step, so that it does not depend on the others of the batch.
"""

import torch

from imharness.gradients import Gradients, ImageRng, Images, Info, Progress, Reconstruct, ReconstructionAttack, hookimpl
from imharness_reconstruction.matching import GradientMatching
from imharness_reconstruction.output_layer import output_layer


class Dlg(GradientMatching):
    """Deep leakage from gradients: L-BFGS on image and label minimises the squared distance of gradients."""

    info = Info(id="harness/dlg", version="6", paper="zhu2019")

    @property
    def letter(self) -> str:
        """The letter of the threat model in the SoK of Carletti et al."""
        return "A"

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            classes = output_layer(model, shape).classes
            size = shape[0] * shape[1] * shape[2]

            def dummy(flat: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return flat[:, :size].view(-1, *shape), flat[:, size:].softmax(dim=1)

            def start() -> torch.Tensor:
                return torch.cat([rng.normal(size), rng.normal(classes)], dim=1)

            ends = self.match(gradients, model, start, dummy, progress)
            return ends[:, :size].view(-1, *shape).clamp(0, 1)

        return reconstruct


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [Dlg()]

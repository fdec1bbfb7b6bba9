"""iDLG: DLG with the label read off the gradient.

Zhao, Mopuri & Bilen, "iDLG: Improved Deep Leakage from Gradients" (2020), algorithm 1: the gradient of the last layer's
bias is negative at the true class only.
"""

import torch

from imharness.gradients import Gradients, ImageRng, Images, Info, Progress, Reconstruct, ReconstructionAttack, hookimpl
from imharness_reconstruction.matching import GradientMatching
from imharness_reconstruction.per_image import labels_from_gradients


class Idlg(GradientMatching):
    """Improved deep leakage from gradients: L-BFGS on the image; the sign of the gradient gives the label."""

    info = Info(id="harness/idlg", version="6", paper="zhao2020")

    @property
    def letter(self) -> str:
        """The letter of the threat model in the SoK of Carletti et al."""
        return "A"

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            labels = labels_from_gradients(gradients, model, shape)
            size = shape[0] * shape[1] * shape[2]

            def dummy(flat: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return flat.view(-1, *shape), labels[rows]

            ends = self.match(gradients, model, lambda: rng.normal(size), dummy, progress)
            return ends.view(-1, *shape).clamp(0, 1)

        return reconstruct


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [Idlg()]

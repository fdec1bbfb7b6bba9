"""iDLG: DLG with the label read off the gradient.

Zhao, Mopuri & Bilen, "iDLG: Improved Deep Leakage from Gradients" (2020), algorithm 1: the gradient of the last layer's
bias is negative at the true class only.
"""

import torch
from pydantic import Field

from harness.api import Gradients, ImageRng, Images, Info, Paper, Progress, Reconstruct, ReconstructionAttack, hookimpl
from harness_reconstruction.matching import match
from harness_reconstruction.per_image import labels_from_gradients


class Idlg(ReconstructionAttack):
    """Improved deep leakage from gradients: L-BFGS on the image, the label from the sign of the gradient."""

    info = Info(
        id="harness/idlg",
        version="1",
        paper=Paper(
            title="iDLG: Improved Deep Leakage from Gradients",
            authors="Zhao, Mopuri & Bilen",
            year=2020,
            url="https://arxiv.org/abs/2001.02610",
        ),
    )
    iterations: int = Field(default=1200, ge=1, le=100_000, description="L-BFGS steps.")
    history: int = Field(default=100, ge=1, le=200, description="L-BFGS pairs kept.")
    starts: int = Field(default=2, ge=1, le=100, description="Random starts; each image keeps its best end.")

    def build(self, device: torch.device) -> Reconstruct:
        """Return the attack."""

        def reconstruct(
            gradients: Gradients,
            model: torch.nn.Module,
            shape: tuple[int, int, int],
            rng: ImageRng,
            progress: Progress,
        ) -> Images:
            labels = labels_from_gradients(gradients).repeat(self.starts)
            size = shape[0] * shape[1] * shape[2]
            start = torch.cat([rng.normal(size) for _ in range(self.starts)])
            ends = match(
                gradients,
                model,
                start,
                lambda flat: (flat.view(-1, *shape), labels),
                self.starts,
                self.iterations,
                self.history,
                progress,
            )
            return ends.view(-1, *shape).clamp(0, 1)

        return reconstruct


@hookimpl
def register_attacks() -> list[ReconstructionAttack]:
    return [Idlg()]

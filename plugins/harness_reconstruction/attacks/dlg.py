"""DLG: find image and soft label whose gradient is the shared one, by L-BFGS.

Zhu, Liu & Han, "Deep Leakage from Gradients" (NeurIPS 2019), algorithm 1. All images are optimised at once; each
has its own L-BFGS memory and step, so that none depends on the others of the batch.
"""

import torch
from pydantic import Field

from harness.api import Gradients, ImageRng, Images, Info, Paper, Progress, Reconstruct, ReconstructionAttack, hookimpl
from harness_reconstruction.matching import match


class Dlg(ReconstructionAttack):
    """Deep leakage from gradients: L-BFGS on image and label, squared gradient distance."""

    info = Info(
        id="harness/dlg",
        version="1",
        paper=Paper(
            title="Deep Leakage from Gradients",
            authors="Zhu, Liu & Han",
            year=2019,
            url="https://arxiv.org/abs/1906.08935",
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
            classes = list(gradients.values())[-1].shape[1]
            size = shape[0] * shape[1] * shape[2]

            def dummy(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return flat[:, :size].view(-1, *shape), flat[:, size:].softmax(dim=1)

            start = torch.cat([torch.cat([rng.normal(size), rng.normal(classes)], dim=1) for _ in range(self.starts)])
            ends = match(gradients, model, start, dummy, self.starts, self.iterations, self.history, progress)
            return ends[:, :size].view(-1, *shape).clamp(0, 1)

        return reconstruct


@hookimpl
def register_attacks() -> list[ReconstructionAttack]:
    return [Dlg()]

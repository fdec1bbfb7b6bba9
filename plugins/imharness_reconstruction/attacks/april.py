"""APRIL: a vision transformer gives its patches away through the gradient of its learned positions.

After Lu, Zhang, Zhao, He & Cheng, "APRIL: Finding the Achilles' Heel on Privacy for Vision Transformers" (CVPR 2022).
Positions are added to the tokens, so for one image the gradient A ``(tokens, width)`` of the positions is the gradient
at the tokens. The paper solves a linear system for the input of the first attention layer, which must have no residual
connection around it. Here the system is that of the patch embedding, whose gradient is ``A^T X`` for the patches X; it
holds whatever layers follow. It has one solution if A has full rank, for which the width must be at least the number of
tokens. For a network without learned positions that are added to embedded patches, grey images are returned.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import double
from imharness.errors import UsageError
from imharness.gradients import (
    HONEST,
    Gradients,
    ImageRng,
    Images,
    Info,
    Progress,
    Reconstruct,
    ReconstructionAttack,
    hookimpl,
)
from imharness_reconstruction.per_image import image_gradients

ALIKE = 1e-4
"""Two gradients are the same but for rounding if their distance is at most this share of their length."""


class April(ReconstructionAttack):
    """Patches of a vision transformer in closed form, from the gradients of its positions and patch embedding."""

    info = Info(id="harness/april", version="1", paper="lu2022")
    opt_in = True
    cutoff: float = Field(
        default=1e-12, gt=0, le=1, description="Singular values below this share of the largest one count as 0."
    )

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        return (
            f"The server is {HONEST}. It knows the network, a vision transformer with learned positions, the loss and "
            "that each gradient is of one image."
        )

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            embedded = _embedding(model, shape, rng)
            if embedded is None:
                return torch.full((len(rng), *shape), 0.5, device=rng.device)
            embedding, position, layer = embedded
            missing = {embedding, position} - {*gradients}
            if missing:
                raise UsageError(f"gradients: {min(missing)} is missing, from which APRIL recovers patches.")
            slopes = _of_patches(double(gradients[position]).flatten(1), layer, shape)
            inverse = torch.linalg.pinv(slopes.transpose(1, 2), rtol=self.cutoff)
            patches = inverse @ double(gradients[embedding]).flatten(2)
            progress(1, 1)
            columns = patches.transpose(1, 2).float()
            return F.fold(columns, shape[1:], layer.kernel_size, stride=layer.stride).clamp(0, 1)

        return reconstruct


def _of_patches(values: torch.Tensor, layer: torch.nn.Conv2d, shape: tuple[int, int, int]) -> torch.Tensor:
    """Return the last rows of values ``(B, rows * width)``, those of patches: ``(B, tokens, width)``.

    The row of a class token may come before them.
    """
    tokens = (shape[1] // layer.kernel_size[0]) * (shape[2] // layer.kernel_size[1])
    return values.unflatten(1, (-1, layer.out_channels))[:, -tokens:]


def _embedding(
    model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng
) -> tuple[str, str, torch.nn.Conv2d] | None:
    """Return the name of the embedding's weights, the name of the positions, and the layer that embeds; None without.

    The layer is the first convolution whose patches do not overlap. Positions are added to its output, so they are the
    parameter with the same gradient as this output; the gradients of one random image are compared.
    """
    image = rng.slice(0, 1).uniform(*shape)
    calls: list[tuple[str, torch.nn.Conv2d, torch.Tensor]] = []
    handles = [
        layer.register_forward_hook(lambda layer, _, output, name=name: calls.append((name, layer, output)))
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Conv2d) and layer.kernel_size == layer.stride and set(layer.padding) == {0}
    ]
    try:
        with torch.enable_grad():
            logits = model(image.requires_grad_(True))
            label = logits.argmin(dim=1)  # the least likely class: the gradient does not vanish
            loss = F.cross_entropy(logits, label)
    finally:
        for handle in handles:
            handle.remove()
    if not calls:
        return None
    embedding, layer, output = calls[0]
    at_tokens = torch.autograd.grad(loss, output)[0].flatten(2).transpose(1, 2)  # (1, tokens, width)
    for position, gradient in image_gradients(model, image.detach(), label).items():
        if gradient[0].numel() % layer.out_channels or gradient[0].numel() < at_tokens.numel():
            continue
        distance = torch.linalg.vector_norm(_of_patches(gradient.flatten(1), layer, shape) - at_tokens)
        if distance <= ALIKE * torch.linalg.vector_norm(at_tokens):
            return f"{embedding}.weight", position, layer
    return None


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [April()]

"""CAFE: catastrophic data leakage in vertical federated learning, recovered from gradients of whole batches.

Jin, Chen, Hsu, Yu & Chen, "CAFE: Catastrophic Data Leakage in Vertical Federated Learning" (NeurIPS 2021). The server
draws the rows of every batch, so it knows which image took part in which shared gradient. Step I: the gradients of a
linear layer's bias, over batches, give the gradient of the loss with respect to that layer's output for every image.
Step II: with them, the gradients of its weights give every image's input to the layer. Both systems are linear, so they
are solved by least squares, where the paper uses gradient descent; they have full rank once there are as many batches
as images. Step III: images are optimised until they give the shared gradients and the inputs found, with total
variation as a prior. If the linear layer is the first layer, step II gives the images themselves.
"""

import torch
from pydantic import Field

from imharness.data import generator
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
from imharness_reconstruction.inversion import total_variation
from imharness_reconstruction.linear_layer import first_linear
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.output_layer import output_layer
from imharness_reconstruction.per_image import averaged, batch_weights, gradients_and_inputs

ROUNDS = 2.0
"""The number of batches, as a multiple of the number of images. The server draws batches in rounds; in each round, an
image is in one batch."""


class Cafe(ReconstructionAttack):
    """Recovers many images from gradients of known batches, through the inputs of a linear layer."""

    info = Info(id="harness/cafe", version="5", paper="jin2021")
    batch: int = Field(default=4, ge=1, le=1024, description="Images whose gradients are shared as one mean.")
    steps: int = Field(default=2000, ge=1, le=100_000, description="Adam steps in step III.")
    learning_rate: float = Field(
        default=0.01, gt=0, le=10, description="Adam's step size, in units of the pixel range."
    )
    total_variation: float = Field(default=1e-3, ge=0, description="Weight of the total variation.")
    inputs: float = Field(default=1.0, ge=0, description="Weight of the distance of the linear layer's inputs.")

    @property
    def threat(self) -> str:
        """The threat model."""
        return f"{HONEST}, batches known"

    @property
    def letter(self) -> str:
        """No letter: the SoK of Carletti et al. has no server that draws the rows of every batch."""
        return ""

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        return "The server draws the rows of every batch (vertical federated learning) and sees each image in several."

    def batches(self, images: int) -> list[list[int]]:
        """Return the images of each batch that the server draws: batches of one size, and each image in several."""
        size = min(self.batch, max(1, images // 2))
        rounds, per_round = max(2, round(ROUNDS * size)), -(-images // size)
        order = torch.rand(rounds, images, generator=generator(0)).argsort(dim=1)
        # the last batch of a round is filled with images of its first one
        filled = torch.cat([order, order[:, : per_round * size - images]], dim=1)
        return filled.reshape(rounds * per_round, size).tolist()

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            count = len(rng)
            first = (0.5 + 0.2 * rng.normal(*shape)).clamp(0, 1)
            mean = batch_weights(self.batches(count), count).to(first.device)
            name, layer, entered = first_linear(model, first, "CAFE")
            slopes = torch.linalg.lstsq(mean, gradients[f"{name}.bias"]).solution  # (N, out)
            layer_inputs = _inputs(gradients[f"{name}.weight"], slopes, mean)  # (N, in)
            if torch.equal(entered.flatten(1), first.flatten(1)):
                progress(1, 1)
                return layer_inputs.view(count, *shape).clamp(0, 1)
            labels = _labels(output_layer(model, shape).slope(gradients), mean)
            return self._descend(first, labels, gradients, layer_inputs, mean, model, layer, progress)

        return reconstruct

    def _descend(
        self,
        first: Images,
        labels: torch.Tensor,
        shared: Gradients,
        layer_inputs: torch.Tensor,
        mean: torch.Tensor,
        model: torch.nn.Module,
        layer: torch.nn.Linear,
        progress: Progress,
    ) -> Images:
        """Return the images that step III ends with.

        Args:
            first: where it begins, float32 ``(N, 3, H, W)``.
            labels: the classes ``(N,)``.
            shared: the gradients of T batches ``(T, *shape)``, by parameter.
            layer_inputs: what entered `layer` for each image, ``(N, in)``.
            mean: the weights of the images in each batch ``(T, N)``.
        """
        x = first.requires_grad_(True)
        optimiser = torch.optim.Adam([x], lr=self.learning_rate)
        scale = layer_inputs.square().mean().clamp(min=1e-12)
        divisors = {name: values.square().sum().clamp(min=1e-20) * len(shared) for name, values in shared.items()}
        masks = survivors(shared)
        if masks is None:  # the orthogonal factor changes squared distances by a constant only
            orthogonal, mean = torch.linalg.qr(mean)
            shared = averaged(shared, orthogonal.T)
        for done in range(self.steps):
            computed, entered = gradients_and_inputs(model, x, labels, layer)
            means = averaged({name: computed[name] for name in shared}, mean)
            if masks is not None:
                means = {name: values * masks[name] for name, values in means.items()}
            mismatch = sum((means[name] - values).square().sum() / divisors[name] for name, values in shared.items())
            loss = mismatch + self.inputs * (entered - layer_inputs).square().mean() / scale
            loss = loss + self.total_variation * total_variation(x).sum()
            (x.grad,) = torch.autograd.grad(loss, x)
            optimiser.step()
            with torch.no_grad():
                x.clamp_(0, 1)
            progress(done + 1, self.steps)
        return x.detach()


def _inputs(weight: torch.Tensor, slopes: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Return the layer's inputs H ``(N, in)`` from the gradients G of its weights, ``(T, out, in)``.

    With the slopes S ``(N, out)``, S^T diag(mean_t) H = G_t holds for each batch t.
    """
    system = torch.einsum("tn,no->ton", mean, slopes).flatten(0, 1)  # (T * out, N)
    return torch.linalg.lstsq(system, weight.flatten(0, 1)).solution


def _labels(slopes: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Return each image's class from the gradients of the output bias ``(T, classes)``, solved as in step I."""
    return torch.linalg.lstsq(mean, slopes).solution.argmin(dim=1)


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [Cafe()]

"""The search for ATS policies whose gradients reveal little and which are still good to train on.

Gao et al., CVPR 2021, section 4. The privacy score compares the gradient of a transformed image with those of points on
the line from noise to the image: it is the mean cosine similarity, and less is more private (equation 6). The accuracy
score says how differently a network responds to transformed images, from the eigenvalues of the correlations of its
Jacobians; more is better (equation 9, after Mellor et al., ICML 2021). The search returns the policies with an accuracy
score in the upper half, the lowest privacy score first.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from imharness.data import double, fresh_numerics
from imharness.gradients import ImageRng
from imharness_reconstruction.inversion import flat
from imharness_reconstruction.per_image import image_gradients
from imharness_reconstruction.transformations import TRANSFORMATIONS, transformed

WAY = 20
"""The number of points on the line between noise and image."""
LONGEST = 3
"""The largest number of transformations of a policy."""
EPS = 1e-5
"""This is added to eigenvalues."""


@dataclass(frozen=True)
class Scored:
    """A policy with its two scores."""

    policy: str
    privacy: float
    accuracy: float


def candidates(count: int, rng: torch.Generator) -> list[list[int]]:
    """Return different random policies of up to three transformations."""
    policies: dict[tuple[int, ...], None] = {}
    while len(policies) < count:
        length = int(torch.randint(1, LONGEST + 1, (), generator=rng))
        policies[tuple(torch.randint(len(TRANSFORMATIONS), (length,), generator=rng).tolist())] = None
    return [list(policy) for policy in policies]


@fresh_numerics()
def search(
    network: torch.nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    policies: list[list[int]],
    seed: int,
    progress: Callable[[int, int], None],
) -> list[Scored]:
    """Return the policies with an accuracy score in the upper half, the most private first.

    `network`: half-trained, in evaluation mode; `images` ``(N, 3, H, W)``. All policies meet the same noise.
    """
    scored = []
    for number, numbers in enumerate(policies):
        rng = ImageRng([seed + i for i in range(len(images))], images.device)
        noise = rng.uniform(*images.shape[1:])
        changed = transformed(images, [numbers], rng)
        name = "-".join(map(str, numbers))
        scored.append(Scored(name, privacy(network, changed, noise, labels), accuracy(network, changed)))
        progress(number + 1, len(policies))
    limit = torch.tensor([policy.accuracy for policy in scored]).median()
    return sorted((policy for policy in scored if policy.accuracy >= limit), key=lambda policy: policy.privacy)


def privacy(network: torch.nn.Module, images: torch.Tensor, noise: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the mean cosine similarity of the gradients of `images` and of points on the line from noise to them."""
    of_images = flat(image_gradients(network, images, labels))
    similarities = []
    for step in range(WAY):
        between = torch.lerp(noise, images, (step + 0.5) / WAY)
        similarities.append(torch.cosine_similarity(flat(image_gradients(network, between, labels)), of_images, dim=1))
    return float(torch.stack(similarities).mean())


def accuracy(network: torch.nn.Module, images: torch.Tensor) -> float:
    """Return minus the mean of log s + 1 / s over the eigenvalues s of the correlation of Jacobians."""
    leaf = images.detach().requires_grad_(True)
    (jacobian,) = torch.autograd.grad(network(leaf).sum(), leaf)
    values = torch.linalg.eigvalsh(torch.corrcoef(double(jacobian.flatten(1)))).clamp(min=0) + EPS
    return float(-(values.log() + 1 / values).mean())

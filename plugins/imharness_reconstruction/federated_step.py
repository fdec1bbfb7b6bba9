"""What the step ``reconstruct`` does for an attack on a round of federated learning."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from imharness.gradients import LABELS, Gradients, ReconstructionAttack, Round
from imharness.tracks import StepContext
from imharness_reconstruction.convergence import matching_round
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.pairing import paired
from imharness_reconstruction.rounds import shared_in


def attacked_round(
    context: StepContext,
    own: Round,
    network: torch.nn.Module,
    attack: Callable[..., torch.Tensor],
    names: Sequence[str],
    private: torch.Tensor,
    targets: torch.Tensor,
    known: Callable[..., Gradients],
) -> dict[str, np.ndarray]:
    """Let participants of successive images share a round, defended, and an attack rebuild the images.

    The last participant has the images that are left. The result has the numbers of `matching_round` for each image,
    and the `images` as bytes, each in the place of its private image (`paired`).

    Args:
        network: the network of the run; a malicious attack sends another one.
        private: float32 ``(N, 3, H, W)``.
        targets: float32 ``(N, classes)``.
        known: (network, gradients) -> the gradients as who knows the defense reads them.
    """
    component: ReconstructionAttack = context.component("attack")
    shape = (private.shape[1], private.shape[2], private.shape[3])
    model = component.sent(network, shape).requires_grad_(False)
    whole = len(private) // own.images * own.images
    parts = [(0, whole, own.images), (whole, len(private), len(private) - whole)]
    found = []
    for start, stop, size in parts:
        if start < stop:
            rows = slice(start, stop)
            x, y = (values[rows].unflatten(0, (-1, size)) for values in (private, targets))
            told = names[rows]
            joined = [f"round: {' '.join(told[i : i + size])}" for i in range(0, len(told), size)]
            plain, statistics = shared_in(own, model, x, y)
            shared = known(model, context.build("defense")(plain, context.rng(joined, "defense")))
            held = as_sent(own, shared, statistics, y, size)
            rebuilt = attack(held, model, shape, context.rng(told, "attack"), context.progress)
            found.append(measured(component, own, model, shared, x, y, rebuilt))
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def as_sent(
    own: Round, shared: Gradients, statistics: Gradients, targets: torch.Tensor, images: int
) -> dict[str, torch.Tensor]:
    """Return what an attack gets: the update in the scale it knows, and what the threat model tells it besides."""
    factor = 1.0 if own.rate_known else own.learning_rate * len(own.steps(images))
    held = {name: values * factor for name, values in shared.items()}
    held |= statistics if own.statistics_known else {}
    return held | ({LABELS: targets.argmax(dim=2)} if own.labels_known else {})


def measured(
    component: ReconstructionAttack,
    own: Round,
    model: torch.nn.Module,
    shared: Gradients,
    private: torch.Tensor,
    targets: torch.Tensor,
    rebuilt: torch.Tensor,
) -> dict[str, np.ndarray]:
    """Return how well reconstructions ``(N, 3, H, W)``, in any order within a participant, explain what was shared."""
    several, size = private.shape[:2]
    place = paired(rebuilt, private.flatten(0, 1), size)
    labels = targets.argmax(dim=2) if own.labels_known else listed(label_counts(shared, model, size))
    read = torch.nn.functional.one_hot(labels, targets.shape[2]).to(targets)
    ordered, found = (values.unflatten(0, (several, size)) for values in (rebuilt[place], rebuilt))
    with torch.no_grad():
        fit = matching_round(model, own, shared, private, targets, ordered, found, read)
    if component.closed_form:
        fit["converged"] = torch.ones_like(fit["converged"])
    told = {name: values.cpu().numpy() for name, values in fit.items()}
    return {**told, "images": rebuilt[place].mul(255).round().byte().cpu().numpy()}

"""The step ``reconstruct`` for attacks on a round of federated learning."""

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
    federated_round: Round,
    network: torch.nn.Module,
    attack: Callable[..., torch.Tensor],
    names: Sequence[str],
    private: torch.Tensor,
    targets: torch.Tensor,
    select: Callable[..., Gradients],
) -> dict[str, np.ndarray]:
    """Simulate a defended round, attack what the participants share, and measure the reconstructions.

    Each participant has the next `federated_round.images` images, and the last one those that remain. The result has
    the numbers of `matching_round` for each image, and `images`, the reconstructions as bytes, each at the position of
    its private image (see `paired`).

    Args:
        network: the network of the run; a malicious attack sends another one.
        names: the names of the images.
        private: float32 ``(N, 3, H, W)``.
        targets: float32 ``(N, classes)``.
        select: (network, gradients) -> the gradients as an attacker reads them who knows the defense.
    """
    component: ReconstructionAttack = context.component("attack")
    shape = (private.shape[1], private.shape[2], private.shape[3])
    model = component.sent(network, shape).requires_grad_(False)
    whole = len(private) // federated_round.images * federated_round.images
    groups = [(0, whole, federated_round.images), (whole, len(private), len(private) - whole)]
    results = []
    for start, stop, size in groups:
        if start < stop:
            rows = slice(start, stop)
            x, y = (values[rows].unflatten(0, (-1, size)) for values in (private, targets))
            group_names = names[rows]
            joined = [f"round: {' '.join(group_names[i : i + size])}" for i in range(0, len(group_names), size)]
            plain, statistics = shared_in(federated_round, model, x, y)
            shared = select(model, context.build("defense")(plain, context.rng(joined, "defense")))
            received = as_sent(federated_round, shared, statistics, y, size)
            rebuilt = attack(received, model, shape, context.rng(group_names, "attack"), context.progress)
            results.append(measured(component, federated_round, model, shared, x, y, rebuilt))
    return {name: np.concatenate([one[name] for one in results]) for name in results[0]}


def as_sent(
    federated_round: Round, shared: Gradients, statistics: Gradients, targets: torch.Tensor, images: int
) -> dict[str, torch.Tensor]:
    """Return what an attack receives: what was shared, and `statistics` and labels if the threat model gives them.

    `shared` ``(B, *shape)`` is the mean gradient of the steps on `images` images. An attack that does not know the
    learning rate gets the change of the weights instead: the mean gradient times the rate and the number of steps.
    """
    factor = 1.0 if federated_round.rate_known else federated_round.learning_rate * len(federated_round.steps(images))
    received = {name: values * factor for name, values in shared.items()}
    received |= statistics if federated_round.statistics_known else {}
    return received | ({LABELS: targets.argmax(dim=2)} if federated_round.labels_known else {})


def measured(
    component: ReconstructionAttack,
    federated_round: Round,
    model: torch.nn.Module,
    shared: Gradients,
    private: torch.Tensor,
    targets: torch.Tensor,
    rebuilt: torch.Tensor,
) -> dict[str, np.ndarray]:
    """Return how well reconstructions ``(N, 3, H, W)``, in any order within a participant, explain what was shared."""
    participants, size, *sides = private.shape
    shape = (sides[0], sides[1], sides[2])
    order = paired(rebuilt, private.flatten(0, 1), size)
    labels = targets.argmax(dim=2) if federated_round.labels_known else listed(label_counts(shared, model, shape, size))
    read = torch.nn.functional.one_hot(labels, targets.shape[2]).to(targets)
    ordered, unordered = (values.unflatten(0, (participants, size)) for values in (rebuilt[order], rebuilt))
    with torch.no_grad():
        fit = matching_round(model, federated_round, shared, private, targets, ordered, unordered, read)
    if component.closed_form:
        fit["converged"] = torch.ones_like(fit["converged"])
    columns = {name: values.cpu().numpy() for name, values in fit.items()}
    return {**columns, "images": rebuilt[order].mul(255).round().byte().cpu().numpy()}

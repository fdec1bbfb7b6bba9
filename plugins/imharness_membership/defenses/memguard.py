"""MemGuard: noise on the outputs that makes a membership classifier guess at random and keeps the label.

Jia, Salem, Backes, Zhang & Gong, "MemGuard: Defending against Black-Box Membership Inference Attacks via Adversarial
Examples" (CCS 2019), algorithm 1 (the noise) and equations 6 to 9 (how often it is added).
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.data import seeded_init
from imharness.membership import DefenderOutputs, MembershipDefenseInfo, MembershipRelease, ReleaseOutputs, hookimpl
from imharness_membership.descent import Adam

STEP, STEPS = 0.1, 300
"""The length of a step, and the largest number of steps."""
LABEL_WEIGHT = 10.0
"""The weight c2 of the loss that keeps the label."""
DISTORTION_WEIGHTS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""The weights c3 of the distortion that are tried one after another."""
BATCH, LEARNING_RATE = 64, 1e-3
"""Of the training of the defender's classifier."""


class MemGuard(MembershipRelease):
    """Adds the least noise that makes the defender's own attack classifier undecided, within a budget."""

    info = MembershipDefenseInfo(id="harness/memguard", version="3", paper="jia2019")
    budget: float = Field(default=1.0, ge=0, le=2, description="Expected L1 distance of released probabilities.")
    epochs: int = Field(default=400, ge=1, le=10_000, description="Epochs of training the defender's classifier.")
    patience: int = Field(default=100, ge=1, le=STEPS, description="Steps without progress until a row is given up.")

    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the defense; labels do not change, and rows remain probabilities."""

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            with torch.enable_grad():
                classifier = member_classifier(defender, self.epochs, rng)
                noisy_outputs = _noisy(classifier, outputs, self.patience)
            distance = (noisy_outputs - outputs).abs().sum(dim=1)
            certainty, noisy_certainty = (
                (classifier(sorted_outputs(x)).sigmoid() - 0.5).abs() for x in (outputs, noisy_outputs)
            )
            affordable = (self.budget / distance.clamp(min=1e-12)).clamp(max=1)
            share = torch.where(certainty <= noisy_certainty, 0.0, affordable)
            drawn = torch.rand(len(outputs), generator=rng).to(outputs.device)
            return torch.where((drawn < share)[:, None], noisy_outputs, outputs)

        return release


def sorted_outputs(outputs: torch.Tensor) -> torch.Tensor:
    """Return each row ``(n, classes)`` from the largest probability to the smallest."""
    return outputs.sort(dim=1, descending=True).values


def member_classifier(defender_outputs: DefenderOutputs, epochs: int, rng: torch.Generator) -> nn.Module:
    """Train the defender's classifier, sorted outputs ``(n, classes)`` -> logits ``(n,)``, with both sides balanced."""
    features = sorted_outputs(torch.cat([defender_outputs.member, defender_outputs.reference]))
    truth = (torch.arange(len(features), device=features.device) < len(defender_outputs.member)).float()
    weight = truth.new_tensor(len(defender_outputs.reference) / max(1, len(defender_outputs.member)))
    with seeded_init(rng):
        layers = [nn.Linear(features.shape[1], 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()]
        network = nn.Sequential(*layers, nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        network.to(features.device)
    steps = Adam(network.parameters(), LEARNING_RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(truth), generator=rng).to(features.device).split(BATCH):
            logits = network(features[batch])
            steps.step(F.binary_cross_entropy_with_logits(logits, truth[batch], pos_weight=weight))
    return network.eval().requires_grad_(False)


def _noisy(classifier: nn.Module, outputs: torch.Tensor, patience: int) -> torch.Tensor:
    """Return probabilities near the outputs, with the same label, for which the classifier's decision changes.

    Algorithm 1 for all rows at once. The search is repeated with weights of the distortion that grow tenfold, for the
    rows whose decision changed at the weight before; the last success of a row is kept. Rows without success stay
    unchanged.
    """
    logits = outputs.clamp(min=1e-30).log()
    label = outputs.argmax(dim=1, keepdim=True)
    side = classifier(sorted_outputs(outputs)).sign()
    noisy, alive = outputs.clone(), torch.ones(len(outputs), dtype=torch.bool, device=outputs.device)
    for weight in DISTORTION_WEIGHTS:
        rows = alive.nonzero()[:, 0]
        if len(rows) == 0:
            break
        candidates, done = _search(classifier, logits[rows], outputs[rows], label[rows], side[rows], weight, patience)
        noisy[rows[done]] = candidates[done]
        alive = torch.zeros_like(alive)
        alive[rows[done]] = True
    return noisy


def _search(
    classifier: nn.Module,
    logits: torch.Tensor,
    outputs: torch.Tensor,
    label: torch.Tensor,
    side: torch.Tensor,
    weight: float,
    patience: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return probabilities ``(n, classes)`` that change the classifier's decision, and a mask of rows with success.

    Each step moves the logits of a row by `STEP` along the gradient. A row leaves the search when it has success, or
    when its loss has not fallen for `patience` steps. The published search does not give rows up. A patience of 100
    halves the work; a tenth of the rows then have success at another weight, and the noise is 1 to 3 % larger in all.

    Args:
        side: the sign of the classifier's logit for `outputs`, ``(n,)``; success is the other sign.
        weight: of the distortion in the loss.
    """
    noisy_outputs, done = outputs.clone(), torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)
    # of the rows that are still searched: their numbers, their noise, and when their loss was lowest
    rows, noise = torch.arange(len(outputs), device=outputs.device), torch.zeros_like(logits)
    lowest, since = torch.full_like(logits[:, 0], torch.inf), torch.zeros_like(rows)
    for _ in range(STEPS):
        leaf = noise.detach().requires_grad_(True)
        moved = logits + leaf
        probabilities = moved.softmax(dim=1)
        decision = classifier(sorted_outputs(probabilities))
        # by how much another class leads the label
        lead = moved.scatter(1, label, -torch.inf).amax(dim=1) - moved.gather(1, label)[:, 0]
        distortion = (probabilities - outputs).abs().sum(dim=1)
        loss = decision.abs() + LABEL_WEIGHT * lead.clamp(min=0) + weight * distortion
        reached = (decision.sign() != side) & (lead < 0)
        noisy_outputs[rows[reached]], done[rows[reached]] = probabilities.detach()[reached], True
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp(min=1e-12)
        noise = noise - STEP * gradient / length
        since = torch.where(loss.detach() < lowest, 0, since + 1)
        lowest, active = lowest.minimum(loss.detach()), ~reached & (since < patience)
        if not bool(active.any()):
            break
        state = (rows, noise, logits, outputs, label, side, lowest, since)
        rows, noise, logits, outputs, label, side, lowest, since = (x[active] for x in state)
    return noisy_outputs, done


@hookimpl
def components() -> list[MembershipRelease]:
    return [MemGuard()]

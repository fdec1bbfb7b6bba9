"""What the cells of the track compute: trained models, reference models, and what evaluators make of them."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.nn.functional import one_hot

from imharness.data import TableSet, derive_seed
from imharness.membership import (
    DefenderOutputs,
    HarnessError,
    LastLayerGradients,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    References,
    Robustness,
    TrainingData,
    TrainingPlan,
)
from imharness.tracks import StepContext, StepResult, step
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.likelihood import log_odds
from imharness_membership.risk import FLOOR
from imharness_membership.splits import split_rows

FLIPPED = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Shares of bits that noise flips in rows of zeros and ones."""
SPREAD = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations of the noise on other rows, features in [0, 1]."""


@step(version="2")
def train(context: StepContext) -> StepResult:
    """Train one model on its members; keep its outputs on members, non-members and the adversary's own rows."""
    table, role = context.table(), str(context.options["role"])
    parts = _parts(context, table)
    member, outside, reference = (parts[f"{role}_{kind}"] for kind in ("member", "non_member", "reference"))
    network = _trained(context, table, member, reference, "training")
    rows = torch.cat([member, outside])
    population = _population(parts) if role == "target" else rows[:0]
    shown = _shown(context, network, table, torch.cat([rows, population]), member, reference)
    outputs, labels = shown[: len(rows)], table.labels[rows]
    right = (outputs.argmax(dim=1) == labels).float()
    held_out = _outputs(network, table, reference).argmax(dim=1) == table.labels[reference]
    odds = log_odds(shown[len(rows) :], table.labels[population])
    arrays = {"outputs": outputs, "population": odds, "held_out": held_out.float().mean()[None]}
    arrays |= _asked_for(context, network, table, rows)
    return StepResult(
        rows={"row": rows.numpy(), "label": labels.cpu().numpy(), "member": np.arange(len(rows)) < len(member)},
        arrays={name: array.cpu().numpy() for name, array in arrays.items()},
        facts={
            "train_accuracy": float(right[: len(member)].mean()),
            "test_accuracy": float(right[len(member) :].mean()),
        },
    )


def _asked_for(
    context: StepContext, network: torch.nn.Module, table: TableSet, rows: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return what only some evaluators read: robustness against noise, gradients of the last layer."""
    found = {}
    if context.options["copies"]:
        found["robustness"] = _robustness(context, network, table, rows)
    if context.options["gradients"]:
        found["features"] = _last_layer_inputs(network, table, rows)
        found["error"] = _outputs(network, table, rows) - one_hot(table.labels[rows], table.classes)
    return found


@step(version="2")
def references(context: StepContext) -> StepResult:
    """Train the adversary's reference models, each on a random half of the rows the target's members are among."""
    table = context.table()
    parts = _parts(context, table)
    rows = torch.cat([parts["target_member"], parts["target_non_member"]])
    everything = torch.cat([rows, _population(parts)])
    total = int(context.options["models"])
    drawn = [
        torch.randperm(len(rows), generator=context.generator("half", str(number)))[: len(rows) // 2]
        for number in range(total)
    ]
    networks = _references(context, table, [rows[half] for half in drawn], parts["shadow_reference"])
    odds, inside = [], []
    for half, network in zip(drawn, networks, strict=True):
        shown = _shown(context, network, table, everything, rows[half], parts["shadow_reference"])
        odds.append(log_odds(shown, table.labels[everything]).cpu())
        inside.append(torch.zeros(len(rows), dtype=torch.bool).scatter(0, half, True))
    target, population = np.split(torch.stack(odds).numpy(), [len(rows)], axis=1)
    return StepResult(arrays={"log_odds": target, "member": torch.stack(inside).numpy(), "population": population})


@step(version="1")
def sensitivity(context: StepContext) -> StepResult:
    """Train the target again without one member at a time: how far does the model's answer on that member move?

    Song & Mittal (USENIX Security 2021), section 4.3.1: the logarithm of the modified entropy without the member over
    the one with it, both floored. All these models start alike and draw their order from one seed.
    """
    table = context.table()
    parts = _parts(context, table)
    member = parts["target_member"]

    def entropy(network: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return -ModifiedEntropy().value(_outputs(network, table, rows), table.labels[rows]).clamp(max=-FLOOR)

    whole = _trained(context, table, member, parts["target_reference"], "sensitivity")
    count = min(int(context.options["rows"]), len(member))
    moved = []
    for number in range(count):
        left = torch.cat([member[:number], member[number + 1 :]])
        network = _trained(context, table, left, parts["target_reference"], "sensitivity")
        one = member[number : number + 1]
        moved.append(float((entropy(network, one) / entropy(whole, one)).log()))
        context.progress(number + 1, count)
    return StepResult(rows={"row": member[:count].numpy(), "sensitivity": moved})


@step(version="2")
def evaluate(context: StepContext) -> StepResult:
    """Show an evaluator the target's rows in a secret order and keep its score per row."""
    target = context.need("target")
    order = torch.randperm(len(target.rows["row"]), generator=context.generator("order")).numpy()
    scores = context.build("evaluator")(_query(context, order)).cpu().numpy()
    right = target.arrays["outputs"][order].argmax(axis=1) == target.rows["label"][order]
    columns = {name: target.rows[name][order] for name in ("row", "member", "label")}
    return StepResult(rows={**columns, "right": right, "score": scores})


def _query(context: StepContext, order: np.ndarray) -> MembershipQuery:
    """Return what the evaluator may know, the target's rows in the given order."""
    shadow, target = context.need("shadow"), context.need("target")
    reads = context.component("evaluator").reads

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(context.device)

    known, noisy, slopes = None, None, None
    if "references" in reads:
        found = context.need("references").arrays
        known = References(
            log_odds=tensor(found["log_odds"][:, order]),
            member=tensor(found["member"][:, order]),
            population_log_odds=tensor(found["population"]),
            target_population_log_odds=tensor(target.arrays["population"]),
        )
    if "robustness" in reads:
        noisy = Robustness(tensor(shadow.arrays["robustness"]), tensor(target.arrays["robustness"][order]))
    if "gradients" in reads:
        slopes = LastLayerGradients(
            shadow_error=tensor(shadow.arrays["error"]),
            shadow_features=tensor(shadow.arrays["features"]),
            target_error=tensor(target.arrays["error"][order]),
            target_features=tensor(target.arrays["features"][order]),
        )
    return MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]), shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]), target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]), references=known, robustness=noisy, gradients=slopes,
    )  # fmt: skip


def _parts(context: StepContext, table: TableSet) -> dict[str, torch.Tensor]:
    return split_rows(len(table.labels), derive_seed("split", context.options["split"]), int(context.options["part"]))


def _population(parts: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([parts["shadow_member"], parts["shadow_non_member"]])


def _trained(
    context: StepContext, table: TableSet, member: torch.Tensor, reference: torch.Tensor, purpose: str
) -> torch.nn.Module:
    network, data = _fresh(context, table, purpose), _data(table, member, reference)
    train = context.build(_trainer(context))
    trained: torch.nn.Module = train(network, data, _plan(context), context.generator(purpose), context.progress)
    return trained


def _references(
    context: StepContext, table: TableSet, members: list[torch.Tensor], reference: torch.Tensor
) -> Iterator[torch.nn.Module]:
    """Yield one trained model per set of members; all are trained at once where the defense has a way to."""
    purposes = [f"reference {number}" for number in range(len(members))]
    first = _fresh(context, table, purposes[0])
    train_together = context.build(_trainer(context), first, method="build_together")
    if train_together is None:
        for number, (member, purpose) in enumerate(zip(members, purposes, strict=True)):
            yield _trained(context, table, member, reference, purpose)
            context.progress(number + 1, len(members))
        return
    networks = [first, *(_fresh(context, table, purpose) for purpose in purposes[1:])]
    data = [_data(table, member, reference) for member in members]
    rngs = [context.generator(purpose) for purpose in purposes]
    train_together(networks, data, _plan(context), rngs, context.progress)
    yield from networks


def _plan(context: StepContext) -> TrainingPlan:
    options = context.options
    return TrainingPlan(
        int(options["epochs"]), int(options["batch_size"]), float(options["learning_rate"]), str(options["optimiser"])
    )


def _fresh(context: StepContext, table: TableSet, purpose: str) -> torch.nn.Module:
    shape = tuple(table.features.shape[1:])
    return context.build("model")(shape, table.classes, context.generator("initialisation", purpose))


def _data(table: TableSet, member: torch.Tensor, reference: torch.Tensor) -> TrainingData:
    return TrainingData(
        table.features[member], table.labels[member], table.features[reference], table.labels[reference]
    )


def _trainer(context: StepContext) -> MembershipTraining:
    """Return the training: that of the defense, or early stopping where another defended model stopped."""
    if "matched" in context.roles:
        aim = float(context.need("matched").arrays["held_out"][0])
        return context.component("defense").with_parameters(accuracy=aim)
    return context.component("training" if isinstance(context.component("defense"), MembershipRelease) else "defense")


@torch.no_grad()
def _outputs(network: torch.nn.Module, table: TableSet, rows: torch.Tensor) -> torch.Tensor:
    """Return probabilities, in parts of bounded size."""
    return torch.cat([network(table.features[part]).softmax(dim=1) for part in rows.split(8192)])


@torch.no_grad()
def _last_layer_inputs(network: torch.nn.Module, table: TableSet, rows: torch.Tensor) -> torch.Tensor:
    """Return what goes into the last linear layer, ``(n, d)``."""
    found: list[torch.Tensor] = []
    last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
    hook = last.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0]))
    _outputs(network, table, rows)
    hook.remove()
    return torch.cat(found)


def _shown(
    context: StepContext,
    network: torch.nn.Module,
    table: TableSet,
    rows: torch.Tensor,
    member: torch.Tensor,
    reference: torch.Tensor,
) -> torch.Tensor:
    """Return what the model's owner releases."""
    outputs = _outputs(network, table, rows)
    recipe = context.component("defense")
    if isinstance(recipe, MembershipRelease):
        held = DefenderOutputs(_outputs(network, table, member), _outputs(network, table, reference))
        outputs = context.build("defense")(outputs, held, context.generator("release"))
    if outputs.shape != (len(rows), table.classes) or not torch.isfinite(outputs).all():
        raise HarnessError(f"{recipe.label}: expected finite outputs {(len(rows), table.classes)}")
    return outputs


@torch.no_grad()
def _robustness(context: StepContext, network: torch.nn.Module, table: TableSet, rows: torch.Tensor) -> torch.Tensor:
    """Return per row the share of noisy copies, over all sizes of noise, that are classified right."""
    features, labels = table.features[rows], table.labels[rows]
    binary = bool(((features == 0) | (features == 1)).all())
    rng, copies = context.generator("noise"), int(context.options["copies"])
    right = torch.zeros(len(rows), device=features.device)
    for size in FLIPPED if binary else SPREAD:
        for _ in range(copies):
            drawn = (torch.rand if binary else torch.randn)(features.shape, generator=rng).to(features.device)
            noisy = (features - (drawn < size).float()).abs() if binary else features + size * drawn
            found = torch.cat([network(part).argmax(dim=1) for part in noisy.split(8192)])
            right += found == labels
    return right / (copies * len(FLIPPED))

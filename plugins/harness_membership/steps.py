"""What the cells of the track compute: trained models, reference models, and what evaluators make of them."""

import numpy as np
import torch

from harness.api import (
    DefenderOutputs,
    HarnessError,
    MembershipQuery,
    MembershipRelease,
    References,
    Robustness,
    StepContext,
    StepResult,
    TableSet,
    TrainingData,
    TrainingPlan,
    derive_seed,
)
from harness_membership.evaluators.modified_entropy import ModifiedEntropy
from harness_membership.likelihood import log_odds
from harness_membership.risk import FLOOR
from harness_membership.splits import split_rows

FLIPPED = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Shares of bits that noise flips in rows of zeros and ones."""
SPREAD = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations of the noise on other rows, features in [0, 1]."""


def train(context: StepContext) -> StepResult:
    """Train one model on its members; keep its outputs on members, non-members and the adversary's own rows."""
    table, role = context.table(), str(context.options["role"])
    parts = _parts(context, table)
    member, outside, reference = (parts[f"{role}_{kind}"] for kind in ("member", "non_member", "reference"))
    network = _trained(context, table, member, reference, "training")
    rows = torch.cat([member, outside])
    population = torch.cat([parts["shadow_member"], parts["shadow_non_member"]]) if role == "target" else rows[:0]
    shown = _shown(context, network, table, torch.cat([rows, population]), member, reference)
    outputs = shown[: len(rows)]
    right = (outputs.argmax(dim=1) == table.labels[rows]).float()
    held_out = _outputs(network, table, reference).argmax(dim=1) == table.labels[reference]
    odds = log_odds(shown[len(rows) :], table.labels[population])
    arrays = {"outputs": outputs, "population": odds, "held_out": held_out.float().mean()[None]}
    if context.options["copies"]:
        arrays["robustness"] = _robustness(context, network, table, rows)
    return StepResult(
        rows={
            "row": rows.numpy(),
            "label": table.labels[rows].cpu().numpy(),
            "member": np.arange(len(rows)) < len(member),
        },
        arrays={name: array.cpu().numpy() for name, array in arrays.items()},
        facts={
            "train_accuracy": float(right[: len(member)].mean()),
            "test_accuracy": float(right[len(member) :].mean()),
        },
    )


def references(context: StepContext) -> StepResult:
    """Train the adversary's reference models, each on a random half of the rows the target's members are among."""
    table = context.table()
    parts = _parts(context, table)
    rows = torch.cat([parts["target_member"], parts["target_non_member"]])
    population = torch.cat([parts["shadow_member"], parts["shadow_non_member"]])
    everything = torch.cat([rows, population])
    total = int(context.options["models"])
    odds, inside = [], []
    for number in range(total):
        drawn = torch.randperm(len(rows), generator=context.generator("half", str(number)))[: len(rows) // 2]
        network = _trained(context, table, rows[drawn], parts["shadow_reference"], f"reference {number}")
        shown = _shown(context, network, table, everything, rows[drawn], parts["shadow_reference"])
        odds.append(log_odds(shown, table.labels[everything]).cpu())
        inside.append(torch.zeros(len(rows), dtype=torch.bool).scatter(0, drawn, True))
        context.progress(number + 1, total)
    found = torch.stack(odds)
    arrays = {
        "log_odds": found[:, : len(rows)],
        "member": torch.stack(inside),
        "population": found[:, len(rows) :],
    }
    return StepResult(arrays={name: array.numpy() for name, array in arrays.items()})


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


def evaluate(context: StepContext) -> StepResult:
    """Show an evaluator the target's rows in a secret order and keep its score per row."""
    shadow, target = context.need("shadow"), context.need("target")
    order = torch.randperm(len(target.rows["row"]), generator=context.generator("order")).numpy()
    reads = context.component("evaluator").reads

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(context.device)

    known, noisy = None, None
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
    query = MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]),
        shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]),
        target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]),
        references=known,
        robustness=noisy,
    )
    scores = context.build("evaluator")(query).cpu().numpy()
    right = target.arrays["outputs"][order].argmax(axis=1) == target.rows["label"][order]
    columns = {name: target.rows[name][order] for name in ("row", "member", "label")}
    return StepResult(rows={**columns, "right": right, "score": scores})


def _parts(context: StepContext, table: TableSet) -> dict[str, torch.Tensor]:
    return split_rows(len(table.labels), derive_seed("split", context.options["split"]), int(context.options["part"]))


def _trained(
    context: StepContext, table: TableSet, member: torch.Tensor, reference: torch.Tensor, purpose: str
) -> torch.nn.Module:
    options = context.options
    plan = TrainingPlan(
        int(options["epochs"]), int(options["batch_size"]), float(options["learning_rate"]), str(options["optimiser"])
    )
    network = context.build("model")(
        tuple(table.features.shape[1:]), table.classes, context.generator("initialisation", purpose)
    )
    data = TrainingData(
        table.features[member], table.labels[member], table.features[reference], table.labels[reference]
    )
    return _trainer(context)(network, data, plan, context.generator(purpose), context.progress)


def _trainer(context: StepContext):
    """Return the training: that of the defense, or early stopping where another defended model stopped."""
    if "matched" in context.roles:
        aim = float(context.need("matched").arrays["held_out"][0])
        return context.component("defense").with_parameters(accuracy=aim).build(context.device)
    return context.build("training" if isinstance(context.component("defense"), MembershipRelease) else "defense")


@torch.no_grad()
def _outputs(network: torch.nn.Module, table: TableSet, rows: torch.Tensor) -> torch.Tensor:
    """Return probabilities, in parts of bounded size."""
    return torch.cat([network(table.features[part]).softmax(dim=1) for part in rows.split(8192)])


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

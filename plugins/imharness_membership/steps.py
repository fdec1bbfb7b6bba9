"""The steps of the track: trained models, reference models, and the guesses of evaluators."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import one_hot

from imharness.errors import HarnessError
from imharness.membership import (
    DefenderOutputs,
    MembershipQuery,
    MembershipRelease,
)
from imharness.tracks import StepContext, StepResult, step
from imharness_membership.calibration import calibration_error
from imharness_membership.canaries import planted
from imharness_membership.defenses.plain_training import PlainTraining
from imharness_membership.evaluators.confidence import Confidence
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.evaluators.privacy_risk import PrivacyRisk
from imharness_membership.layer_gradients import row_gradients
from imharness_membership.likelihood import log_odds
from imharness_membership.networks import Checkpoints, Split, closest, stacked
from imharness_membership.queries import LAYERS, ODDS, known_halves, query_of
from imharness_membership.risk import FLOOR
from imharness_membership.splits import ROLES
from imharness_membership.training import AT_ONCE, generator_on

FLIPPED = (0.005, 0.01, 0.02, 0.05, 0.1)
"""The shares of bits that noise flips in rows of zeros and ones."""
SPREAD = (0.02, 0.05, 0.1, 0.2, 0.4)
"""The standard deviations of the noise on other rows, whose features are in [0, 1]."""
FURTHER = "further"
"""The column that marks further non-members: a target has as many non-members as members, and perhaps these, too."""
TOGETHER = 16
"""The number of reference models that are trained at once."""
Outputs = Callable[[torch.Tensor, int], torch.Tensor]
"""Row numbers ``(n,)`` and the number of a view -> probabilities ``(n, classes)``."""


@step(version="5", doing="training a network with {defense}")
def train(context: StepContext) -> StepResult:
    """Train one model on its members; keep its outputs on members, non-members and the adversary's own rows.

    Of an undefended model the weights are kept, too: those of the last epoch for releases, those of some earlier epochs
    for early stopping.
    """
    split, role, defense = Split(context), str(context.options["role"]), context.component("defense")
    member, reference = split.parts[f"{role}_member"], split.parts[f"{role}_reference"]
    promised = defense.promises(split.plan, len(member))
    facts = {} if promised is None else {"epsilon": promised[0], "delta": promised[1]}
    if isinstance(defense, PlainTraining):
        checkpoints = Checkpoints(split, reference)
        network = split.trained(defense, member, reference, role, checkpoints)
        return _answers(split, network, checkpoints.arrays(), facts)
    network = split.trained(defense, member, reference, role)
    right = split.outputs(network, reference).argmax(dim=1) == split.table.labels[reference]
    return _answers(split, network, {"held_out": right.float().mean()[None].cpu().numpy()}, facts)


@step(version="3", doing="choosing the epoch at which training stops")
def stop(context: StepContext) -> StepResult:
    """Take the epoch of undefended training whose accuracy on the defender's other rows is closest to a defended
    model's.

    Song & Mittal (USENIX Security 2021), section 3.3.2. The first of equally close epochs is taken.
    """
    split, plain = Split(context), context.need("plain").arrays
    index = closest(plain["held_out"], context.need("matched").arrays["held_out"][-1])
    return _answers(split, split.loaded(plain, index), {"stopped": np.array([index])}, {})


@step(version="2", doing="answering through {defense}")
def release(context: StepContext) -> StepResult:
    """Keep the outputs of the undefended model as a defense releases them."""
    split, role = Split(context), str(context.options["role"])
    network = split.loaded(context.need("plain").arrays, -1)
    outputs = _released(split, network, split.parts[f"{role}_member"], split.parts[f"{role}_reference"], role)
    return _released_outputs(split, outputs, {}, {})


@step(version="4", shared=True, doing="training reference networks[ with {defense}]")
def references(context: StepContext) -> StepResult:
    """Train the adversary's reference models, each on a random half of the target's members and non-members together.

    Of undefended models the weights are kept, for releases, and the answers at the epochs at which the shadow could
    stop, for early stopping.
    """
    split, defense = Split(context), context.component("defense")
    rows, halves = split.asked("target"), _halves(split)
    plain = isinstance(defense, PlainTraining)
    stops = context.need("shadow").arrays["epochs"].tolist() if plain and split.pool is None else []

    def train_some(start: int, stop: int) -> dict[str, np.ndarray]:
        """Train the models with these numbers, and return their arrays, whose first dimension is the model."""
        early: dict[int, list[np.ndarray]] = {epoch: [] for epoch in stops}

        def after(number: int, network: torch.nn.Module, done: int) -> None:
            if done in early:
                early[done].append(_odds(split, _outputs_of(split, network.eval())))

        members = [rows[half] for half in halves[start:stop]]
        networks = split.trained_many(defense, members, split.parts["shadow_reference"], after, before=start)
        outputs = [_outputs_of(split, network) for network in networks]
        batch_arrays = _reference_arrays(split, halves[start:stop], outputs)
        if stops:
            odds = np.stack([np.stack(early[epoch]) for epoch in stops], axis=1)  # (models, stops, m + p + views)
            batch_arrays |= {f"stopped.{name}": values for name, values in _by_kind(split, odds).items()}
        if plain:
            batch_arrays |= stacked([network.state_dict() for network in networks])
        return batch_arrays

    arrays = context.chunks(len(halves), TOGETHER, train_some)
    for name in [key for key in arrays if key.startswith("stopped.")]:
        arrays[name] = arrays[name].swapaxes(0, 1)  # (stops, models, ...)
    return StepResult(arrays={**arrays, **_columns(split)})


@step(version="1", shared=True, doing="answering for reference networks through {defense}")
def release_references(context: StepContext) -> StepResult:
    """Keep the answers of undefended reference models as a defense releases them."""
    split, plain = Split(context), context.need("references").arrays
    rows, halves = split.asked("target"), _halves(split)

    def release_one(start: int, stop: int) -> dict[str, np.ndarray]:
        member, network = rows[halves[start]], split.loaded(plain, start)
        outputs = _released(split, network, member, split.parts["shadow_reference"], f"reference {start}")
        return _reference_arrays(split, halves[start:stop], [outputs])

    return StepResult(arrays={**context.chunks(len(halves), 1, release_one), **_columns(split)})


@step(version="3", doing="training without one member at a time")
def sensitivity(context: StepContext) -> StepResult:
    """Train the undefended target again without one member at a time; measure how its answer to that member changes.

    Song & Mittal (USENIX Security 2021), section 4.2.4: the sensitivity is the logarithm of the modified entropy
    without the member divided by that with it, both at least 1e-10. All models have the target's start and its seed of
    orders.
    """
    split, defense = Split(context), context.component("defense")
    member, reference = split.parts["target_member"], split.parts["target_reference"]

    def entropy(network: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        labels = split.table.labels[rows]
        return -ModifiedEntropy().value(split.outputs(network, rows), labels).clamp(max=-FLOOR)

    with_all = split.loaded(context.need("plain").arrays, -1)
    count = min(int(context.options["rows"]), len(member))
    sensitivities = []
    for number in range(count):
        remaining = torch.cat([member[:number], member[number + 1 :]])
        network = split.trained(defense, remaining, reference, "target", number=number, of=count)
        one = member[number : number + 1]
        sensitivities.append(float((entropy(network, one) / entropy(with_all, one)).log()))
    return StepResult(rows={"row": member[:count].numpy(), "sensitivity": sensitivities})


@step(version="1", doing="measuring the leak epoch by epoch[ with {defense}]")
def by_epoch(context: StepContext) -> StepResult:
    """Train shadow and target once more, and measure accuracy, attacks and risk at some of their epochs.

    Song & Mittal (USENIX Security 2021), figure 2, which has the test accuracy. Both models are trained exactly as in
    the step `train`, so the numbers of the last epoch are those of that step. The adversary learns from the shadow at
    the same epoch.
    """
    split, defense = Split(context), context.component("defense")
    interval = max(1, -(-split.plan.epochs // int(context.options["points"])))  # in epochs
    rows = {role: split.rows(role) for role in ROLES}
    outputs_at: dict[str, dict[int, torch.Tensor]] = {role: {} for role in ROLES}  # role -> epoch -> outputs

    def after(number: int, network: torch.nn.Module, done: int) -> None:
        if done % interval == 0 or done == split.plan.epochs:
            role, training = ROLES[number], network.training
            outputs_at[role][done] = split.outputs(network.eval(), rows[role])
            network.train(training)

    for number, role in enumerate(ROLES):
        row_sets = (split.parts[f"{role}_{kind}"] for kind in ("member", "reference"))
        split.trained(defense, *row_sets, role, after, number, len(ROLES))
    labels = {role: split.table.labels[indices] for role, indices in rows.items()}
    member = {
        role: torch.arange(len(indices), device=labels[role].device) < len(split.parts[f"{role}_member"])
        for role, indices in rows.items()
    }
    attacks = {
        attack.info.id.partition("/")[2]: attack.build(context.device) for attack in (Confidence(), ModifiedEntropy())
    }
    risk = PrivacyRisk().build(context.device)
    columns: dict[str, list[float]] = {"epoch": []}
    for done, outputs in outputs_at["target"].items():
        query = MembershipQuery(
            outputs_at["shadow"][done], labels["shadow"], member["shadow"], outputs, labels["target"]
        )
        inside, right = member["target"], (outputs.argmax(dim=1) == labels["target"]).float()
        values = {
            "train": right[inside].mean(),
            "test": right[~inside].mean(),
            "risk": risk(query)[inside].mean() + 0.5,
        }
        for name, infer in attacks.items():
            predicted = infer(query) >= 0
            values[name] = (predicted[inside].float().mean() + (~predicted[~inside]).float().mean()) / 2
        for name, value in {"epoch": done, **values}.items():
            columns.setdefault(name.replace("-", "_"), []).append(float(value))
    return StepResult(rows={name: np.array(column) for name, column in columns.items()})


@step(version="1", doing="training a network on other rows[ with {defense}]")
def outsider(context: StepContext) -> StepResult:
    """Train a model on as many other rows as the target has members; keep its outputs on the target's rows.

    The model saw neither the target's members nor its non-members, so its outputs cannot separate them. Evaluators that
    do separate them (step `unseen`) make a mistake.
    """
    split = Split(context)
    other, reference = split.parts["target_reference"], split.parts["shadow_reference"]
    network = split.trained(context.component("defense"), other, reference, "outsider")
    return replace(_answers(split, network, {}, {}), facts={})


@step(version="1", doing="training a network on canaries[ with {defense}]")
def canary(context: StepContext) -> StepResult:
    """Train a model on its members and on the canaries that its split drew; keep its answers on all canaries.

    The answer is the log odds of the canary's wrong label. A release works on an undefended model.
    """
    split, defense = Split(context), context.component("defense")
    canaries = planted(split, int(context.options["canaries"]))
    member, reference = split.parts["target_member"], split.parts["target_reference"]
    training_rows = torch.cat([member, canaries.rows[canaries.inside]])
    released = isinstance(defense, MembershipRelease)
    network = split.trained(context.component("trained") if released else defense, training_rows, reference, "canary")
    answers = (
        _released(split, network, training_rows, reference, "canary")(canaries.rows, 0)
        if released
        else split.outputs(network, canaries.rows)
    )
    if not torch.isfinite(answers).all():
        raise HarnessError(f"{defense.label}: outputs are not finite")
    odds = log_odds(answers, split.table.labels[canaries.rows]).cpu().numpy()
    return StepResult(rows={"row": canaries.rows.numpy(), "member": canaries.inside.numpy(), "score": odds})


@step(version="3", doing="guessing members with {evaluator}[ against {defense}]")
def evaluate(context: StepContext) -> StepResult:
    """Let an evaluator guess the target's members; it gets the rows in a secret order. Keep its score for each row."""
    return _guessed(context)


@step(version="1", doing="guessing where nothing can be known with {evaluator}")
def unseen(context: StepContext) -> StepResult:
    """Let an evaluator guess the target's members from a model that saw none of the rows, which is impossible.

    An evaluator that is right more often than chance knows the rows beforehand, or reads data that it must not have.
    """
    return _guessed(context)


def _guessed(context: StepContext) -> StepResult:
    """Return an evaluator's score for each of the target's rows, in the order in which it saw them."""
    target = context.need("target")
    order = torch.randperm(len(target.rows["row"]), generator=context.generator("order")).numpy()
    query, evaluator = query_of(context, order), context.component("evaluator")
    inside = torch.from_numpy(target.rows["member"][order]).to(context.device)
    halves = known_halves(query, inside) if "known" in evaluator.reads else [(slice(None), query)]
    infer = context.build("evaluator")
    scores = np.concatenate([infer(half_query).cpu().numpy() for _, half_query in halves])
    right = target.arrays["outputs"][order].argmax(axis=1) == target.rows["label"][order]
    columns = {name: target.rows[name][order] for name in ("row", "member", "label", FURTHER) if name in target.rows}
    return StepResult(rows={**columns, "right": right, "score": scores})


def _answers(
    split: Split, network: torch.nn.Module, arrays: Mapping[str, np.ndarray], facts: Mapping[str, float]
) -> StepResult:
    """Return a model's outputs, and the evidence that only some evaluators use: robustness and gradients."""
    options, more_arrays = split.context.options, dict(arrays)
    rows = split.rows(str(options["role"]))
    if options["copies"]:
        more_arrays["robustness"] = _robustness(split, network, rows).cpu().numpy()
    if options["gradients"]:
        error = split.outputs(network, rows) - one_hot(split.table.labels[rows], split.table.classes)
        features = _last_layer_inputs(split, network, rows)
        more_arrays |= {"features": features.cpu().numpy(), "error": error.cpu().numpy()}
    if options.get("layers"):
        gradients = row_gradients(network, split.table.features[rows], split.table.labels[rows])
        more_arrays |= {f"layers.{name}": getattr(gradients, name).cpu().numpy() for name in ("sizes", *LAYERS)}
        more_arrays["layers.given"] = np.array([gradients.given])
    return _released_outputs(split, _outputs_of(split, network), more_arrays, facts)


def _outputs_of(split: Split, network: torch.nn.Module) -> Outputs:
    """Return the function from rows and a view to the outputs of a network."""
    return lambda rows, number: split.outputs(network, rows, number)


def _released_outputs(
    split: Split, outputs: Outputs, arrays: Mapping[str, np.ndarray], facts: Mapping[str, float]
) -> StepResult:
    """Return a model's outputs on its rows and, for a target, its log odds on the population and on views.

    The population of an adversary against the target are the shadow's rows. `arrays` and `facts` are added.
    """
    role = str(split.context.options["role"])
    rows, count = split.rows(role), len(split.parts[f"{role}_member"])
    population = split.asked("shadow") if role == "target" else rows[:0]
    answers = outputs(torch.cat([rows, population]), 0)
    if not torch.isfinite(answers).all():
        raise HarnessError(f"{split.context.component('defense').label}: outputs are not finite")
    labels = split.table.labels[rows]
    odds = log_odds(answers[len(rows) :], split.table.labels[population])
    right = (answers[: len(rows)].argmax(dim=1) == labels).float()
    more_arrays = dict(arrays)
    if role == "target" and split.queries > 1:
        views = [log_odds(outputs(rows, number), labels) for number in range(1, split.queries)]
        more_arrays["views"] = torch.stack(views).cpu().numpy()
    first_further = len(rows) - len(split.further(role))
    positions = np.arange(len(rows))
    further = {FURTHER: positions >= first_further} if first_further < len(rows) else {}
    return StepResult(
        rows={"row": rows.numpy(), "label": labels.cpu().numpy(), "member": positions < count, **further},
        arrays={"outputs": answers[: len(rows)].cpu().numpy(), "population": odds.cpu().numpy(), **more_arrays},
        facts={
            "train_accuracy": float(right[:count].mean()),
            "test_accuracy": float(right[count:].mean()),
            "calibration_error": calibration_error(answers[count : len(rows)], labels[count:]),
            **facts,
        },
    )


def _released(
    split: Split, network: torch.nn.Module, member: torch.Tensor, reference: torch.Tensor, network_name: str
) -> Outputs:
    """Return the function from rows and a view to the outputs of a network as the defense releases them."""
    defender_outputs = DefenderOutputs(split.outputs(network, member), split.outputs(network, reference))
    defend = split.context.build("defense")
    return lambda rows, number: defend(
        split.outputs(network, rows, number), defender_outputs, split.rng("release", network_name)
    )


def _halves(split: Split) -> list[torch.Tensor]:
    """Return the members of each reference model, as positions among `split.asked("target")`.

    A reference model has as many members as the target. Members and non-members of the target are drawn with the same
    probability, so that the draw says nothing about membership.
    """
    n, size = len(split.rows("target")), len(split.parts["target_member"])
    total = int(split.context.options["models"])
    return [torch.randperm(n, generator=split.rng("half", str(number)))[:size] for number in range(total)]


def _odds(split: Split, outputs: Outputs) -> np.ndarray:
    """Return the log odds of the target's rows, of the population and of views, joined in one array ``(a,)``."""
    target = split.asked("target")
    rows = torch.cat([target, split.asked("shadow")])
    odds = [log_odds(outputs(rows, 0), split.table.labels[rows])]
    odds += [log_odds(outputs(target, number), split.table.labels[target]) for number in range(1, split.queries)]
    return torch.cat(odds).cpu().numpy()


def _by_kind(split: Split, odds: np.ndarray) -> dict[str, np.ndarray]:
    """Divide arrays ``(..., a)`` of `_odds` into those of the target's rows, of the population and of views.

    The names are those of `ODDS`. Views are ``(..., v, m)``, and missing if nobody asks about views.
    """
    n, p = len(split.rows("target")), len(split.rows("shadow"))
    rows, population, views = np.split(odds, [n, n + p], axis=-1)
    by_kind = dict(zip(ODDS, (rows, population), strict=False))
    if split.queries > 1:
        by_kind[ODDS[2]] = views.reshape(*odds.shape[:-1], split.queries - 1, n)
    return by_kind


def _reference_arrays(split: Split, halves: list[torch.Tensor], outputs: list[Outputs]) -> dict[str, np.ndarray]:
    """Return the answers of reference models by kind, and their members, bool ``(models, m)``."""
    n = len(split.rows("target"))
    member = torch.stack([torch.zeros(n, dtype=torch.bool).scatter(0, half, True) for half in halves])
    return {**_by_kind(split, np.stack([_odds(split, predict) for predict in outputs])), "member": member.numpy()}


def _columns(split: Split) -> dict[str, np.ndarray]:
    """Return the row numbers that the answers of a pool's references are about; nothing without a pool.

    They are stored because each split of the pool has its rows in another order.
    """
    return {} if split.pool is None else {"row": split.asked("target").numpy()}


def _last_layer_inputs(split: Split, network: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return the inputs of the last linear layer, ``(n, d)``."""
    captured: list[torch.Tensor] = []
    last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
    hook = last.register_forward_pre_hook(lambda module, inputs: captured.append(inputs[0]))
    split.outputs(network, rows)
    hook.remove()
    return torch.cat(captured)


@torch.no_grad()
def _robustness(split: Split, network: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return for each row the share of its noisy copies, over all sizes of noise, that are classified right."""
    features, labels, options = split.table.features[rows], split.table.labels[rows], split.context.options
    binary = bool(((features == 0) | (features == 1)).all())
    rng = generator_on(split.rng("noise", str(options["role"])), features.device)
    copies = int(options["copies"])
    right = torch.zeros(len(rows), device=features.device)
    for size in FLIPPED if binary else SPREAD:
        for _ in range(copies):
            drawn = (torch.rand if binary else torch.randn)(features.shape, generator=rng, device=features.device)
            noisy = (features - (drawn < size).float()).abs() if binary else features + size * drawn
            predicted = torch.cat([network(batch).argmax(dim=1) for batch in noisy.split(AT_ONCE)])
            right += predicted == labels
    return right / (copies * len(FLIPPED))

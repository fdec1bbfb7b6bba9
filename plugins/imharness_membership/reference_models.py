"""Small models that are trained and audited for a report, so that readers can compare its result with them.

They are networks of the embedded profile, without a defense, with its data, rows, training and number of splits. They
have nothing to do with the reference models of attacks.
"""

import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import torch

from imharness.data import TableSet, fresh_numerics, generator
from imharness.errors import HarnessError
from imharness.membership import MembershipEvaluator, NetworkFactory, TrainingData, TrainingPlan
from imharness_membership.audit import SLOW, audit, standard
from imharness_membership.audit_inputs import Outputs
from imharness_membership.splits import ROLES, split_rows
from imharness_membership.training import together

DATASET, MODEL = "harness/digits", "harness/mlp"
EMBEDDED = tomllib.loads(
    files("imharness_membership").joinpath("profiles/embedded.toml").read_text(encoding="utf-8"),
)["tracks"]["harness/membership"]
"""The part of the embedded profile that concerns this track."""
LONGER = 5
"""How many times as many epochs a model needs to learn random labels by heart."""


@dataclass(frozen=True)
class ReferenceModel:
    """The mean result of audits of models that were trained in one way, a balanced accuracy."""

    label: str
    accuracy: float


@dataclass(frozen=True)
class ReferenceModels:
    """Models to compare with; `source` says in sentences where they come from, or why there are none."""

    models: tuple[ReferenceModel, ...]
    source: str


def reference_models(plan: TrainingPlan, subset_size: int, splits: int) -> ReferenceModels:
    """Train and audit small models in two ways: as the embedded profile does, and by heart on random labels.

    Args:
        plan: the profile's training.
        subset_size: rows that train a model; as many again test it.
        splits: models of each kind.
    """
    from imharness.commands import every, find

    try:
        table = find("dataset", DATASET).build(torch.device("cpu"))
        model = find("model", MODEL).with_parameters(**EMBEDDED["parameters"][MODEL])
        make = model.build(torch.device("cpu"))
    except HarnessError as error:
        return ReferenceModels((), f"There are no models to compare with: {error}")
    evaluators = [evaluator for evaluator in standard(every("evaluator"), 0) if evaluator.info.id != SLOW]
    longer = replace(plan, epochs=LONGER * plan.epochs)
    ways = (("small model", table, plan), ("learnt by heart", _random_labels(table), longer))
    return ReferenceModels(
        tuple(
            ReferenceModel(label, _mean(data, make, trained, subset_size, splits, evaluators))
            for label, data, trained in ways
        ),
        f"Small model: {splits} networks on {subset_size} handwritten digits each, without a defense, as in the "
        "harness's "
        "embedded profile. Learnt by heart: the same, on random labels, near the worst that can happen. Both were "
        "trained and audited for this report; shown is the mean of their results.",
    )


def _random_labels(table: TableSet) -> TableSet:
    """Return the table with random labels."""
    return replace(table, labels=torch.randint(table.classes, table.labels.shape, generator=generator(0)))


@fresh_numerics()
def _mean(
    table: TableSet,
    make: NetworkFactory,
    plan: TrainingPlan,
    subset_size: int,
    splits: int,
    evaluators: list[MembershipEvaluator],
) -> float:
    """Return the mean balanced accuracy of audits, each of a model with a shadow model on other rows."""
    rngs = [generator(number) for number in range(splits * len(ROLES))]
    splits_rows = [split_rows(len(table.labels), rng, subset_size) for rng in rngs[:splits]]
    # 1. Train a target and a shadow model for each split, all at once: networks[0::2] are targets, [1::2] shadows.
    roles_rows = [(rows, role) for rows in splits_rows for role in ROLES]
    shape = tuple(table.features.shape[1:])
    networks = [make(shape, table.classes, rng) for rng in rngs]
    data = [_training_data(table, rows[f"{role}_member"], rows[f"{role}_reference"]) for rows, role in roles_rows]
    together()(networks, data, plan, rngs, lambda done, total: None)
    # 2. Audit each target with its shadow model.
    outputs = [
        _outputs(table, network, rows[f"{role}_member"], rows[f"{role}_non_member"])
        for network, (rows, role) in zip(networks, roles_rows, strict=True)
    ]
    pairs = zip(outputs[:: len(ROLES)], outputs[1 :: len(ROLES)], strict=True)
    audits = [audit(shadow, target, evaluators, lambda done, total: None) for target, shadow in pairs]
    return float(np.mean([result.worst().accuracy.value for result in audits]))


def _training_data(table: TableSet, member: torch.Tensor, reference: torch.Tensor) -> TrainingData:
    features, labels = table.features, table.labels
    return TrainingData(features[member], labels[member], features[reference], labels[reference])


def _outputs(table: TableSet, network: torch.nn.Module, member: torch.Tensor, non_member: torch.Tensor) -> Outputs:
    """Return a model's outputs on its members and on its non-members, by their row numbers."""
    rows = torch.cat([member, non_member])
    with torch.no_grad():
        outputs = network(table.features[rows]).softmax(dim=1)
    return Outputs(outputs.numpy(), table.labels[rows].numpy(), np.arange(len(rows)) < len(member))

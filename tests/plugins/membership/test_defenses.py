"""Defenses against membership inference: what each promises, on a small model that overfits."""

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.contracts.randomness import generator
from imharness.membership import (
    DefenderOutputs,
    MembershipRelease,
    MembershipTraining,
    TrainingData,
    TrainingPlan,
)
from imharness_membership.defenses import early_stopping
from imharness_membership.defenses.early_stopping import EarlyStopping
from imharness_membership.defenses.masking import Masking
from imharness_membership.defenses.memguard import STEPS, MemGuard, member_classifier, sorted_outputs
from imharness_membership.defenses.plain_training import PlainTraining
from imharness_membership.networks import closest
from imharness_membership.training import accuracy

CPU = torch.device("cpu")
PLAN = TrainingPlan(epochs=30, batch_size=16, learning_rate=3e-3)
TRAININGS = [e.component for e in installed().entries.values() if isinstance(e.component, MembershipTraining)]
RELEASES = [e.component for e in installed().entries.values() if isinstance(e.component, MembershipRelease)]


@pytest.fixture(scope="module")
def data() -> TrainingData:
    table = installed().one("dataset", "digits").build(CPU)
    rows = torch.randperm(len(table.labels), generator=generator(0))
    member, reference = rows[:150], rows[150:450]
    return TrainingData(
        table.features[member], table.labels[member], table.features[reference], table.labels[reference]
    )


def small(component: Component) -> Component:
    """Return a component whose networks, if it has any, are small and trained for few epochs."""
    wanted = {"width": 64, "epochs": 30, "patience": 20, "noise": 0.5}
    return component.with_parameters(**{name: n for name, n in wanted.items() if name in type(component).model_fields})


def trained(defense: MembershipTraining, data: TrainingData, plan: TrainingPlan = PLAN) -> torch.nn.Module:
    network = installed().one("model", "mlp[hidden=[64]]").build(CPU)((64,), 10, generator(1))
    return defense.build(CPU)(network, data, plan, generator(2), lambda done, total: None)


def gap(network: torch.nn.Module, data: TrainingData) -> tuple[float, float]:
    """Return test accuracy, and how much surer the network is of members."""
    with torch.no_grad():
        inside = network(data.features).softmax(1).gather(1, data.labels[:, None]).mean()
        outside = network(data.reference_features).softmax(1).gather(1, data.reference_labels[:, None]).mean()
    return accuracy(network, data.reference_features, data.reference_labels), float(inside - outside)


@pytest.mark.parametrize("defense", [pytest.param(r, id=r.label) for r in TRAININGS])
def test_training_is_reproducible_learns_and_leaves_an_evaluated_network(defense, data) -> None:
    one, two = (trained(small(defense), data) for _ in range(2))
    with torch.no_grad():
        assert torch.equal(one(data.features), two(data.features))
    assert not one.training
    assert gap(one, data)[0] > 0.5


@pytest.mark.parametrize("name", ["label-smoothing", "advreg[weight=20,width=64]", "dropout"])
def test_a_defense_makes_the_model_less_sure_of_its_members(name: str, data) -> None:
    plain, defended = (
        trained(installed().one("defense", defense), data)(data.features).softmax(1).gather(1, data.labels[:, None])
        for defense in ("plain-training", name)
    )
    assert float(defended.detach().mean()) < float(plain.detach().mean())


def test_l2_keeps_weights_small(data) -> None:
    plain, small = (
        sum(float(p.detach().square().sum()) for p in trained(installed().one("defense", name), data).parameters())
        for name in ("plain-training", "l2")
    )
    assert small < 0.8 * plain


def test_early_stopping_is_as_accurate_as_asked_for(data) -> None:
    network = trained(EarlyStopping(accuracy=0.6), data, TrainingPlan(40, 32, 1e-3))
    assert gap(network, data)[0] == pytest.approx(0.6, abs=0.08)


def test_an_early_stop_is_an_epoch_of_plain_training(data) -> None:
    epochs: list[dict[str, torch.Tensor]] = []
    network = installed().one("model", "mlp[hidden=[64]]").build(CPU)((64,), 10, generator(1))

    def keep(done: int, total: int) -> None:
        epochs.append({name: value.clone() for name, value in network.state_dict().items()})

    installed().one("defense", "plain-training").build(CPU)(
        network, data, TrainingPlan(12, 16, 3e-3), generator(2), keep
    )
    stopped = trained(EarlyStopping(), data, TrainingPlan(12, 16, 3e-3)).state_dict()
    same = [all(torch.equal(weights[name], stopped[name]) for name in stopped) for weights in epochs]
    assert len(epochs) == 12
    assert sum(same) == 1


OVERFITTED = [0.30, 0.45, 0.58, 0.60, 0.55]
"""Accuracies after each epoch of a training whose last one makes the network worse on rows that it has not seen."""


@pytest.mark.parametrize(
    ("held_out", "wanted", "epoch"),
    [(OVERFITTED, 0.55, 2), (OVERFITTED, 0.9, 3), ([0.3, 0.6, 0.6], 0.6, 1), ([0.3, 0.5], 0.55, 1), ([0.3], 0.9, 0)],
)
def test_nobody_stops_at_a_last_epoch_that_is_no_record(held_out: list[float], wanted: float, epoch: int) -> None:
    assert closest(np.array(held_out), wanted) == epoch


def test_early_stopping_at_an_accuracy_takes_an_epoch_that_is_a_record(data, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter(OVERFITTED)
    monkeypatch.setattr(early_stopping, "accuracy", lambda network, features, labels: next(shares))
    weights = trained(EarlyStopping(accuracy=0.55), data, TrainingPlan(5, 16, 3e-3)).state_dict()
    third = trained(PlainTraining(), data, TrainingPlan(3, 16, 3e-3)).state_dict()
    assert all(torch.equal(weights[name], third[name]) for name in weights)


@pytest.fixture(scope="module")
def released(data) -> tuple[torch.Tensor, DefenderOutputs]:
    network = trained(installed().one("defense", "plain-training"), data)
    with torch.no_grad():
        inside, outside = (network(x).softmax(1) for x in (data.features, data.reference_features))
    return torch.cat([inside, outside]), DefenderOutputs(inside, outside)


@pytest.fixture(scope="module")
def some(released) -> tuple[torch.Tensor, DefenderOutputs]:
    """Return every third released row, to save time: MemGuard searches for each row separately."""
    outputs, defender = released
    return outputs[::3], DefenderOutputs(defender.member[::3], defender.reference[::3])


@pytest.mark.parametrize("defense", [pytest.param(r, id=r.label) for r in RELEASES])
def test_released_outputs_keep_shape_and_stay_probabilities(defense, some) -> None:
    outputs, defender = some
    one, two = (small(defense).build(CPU)(outputs, defender, generator(0)) for _ in range(2))
    assert torch.equal(one, two)
    assert one.shape == outputs.shape
    assert one.min() >= 0
    assert one.max() <= 1 + 1e-6


def test_memguard_keeps_labels_and_budget_and_turns_its_classifier_into_a_coin(some) -> None:
    outputs, defender = some
    noisy = MemGuard(budget=2.0, epochs=60, patience=20).build(CPU)(outputs, defender, generator(0))
    assert torch.equal(noisy.argmax(1), outputs.argmax(1))
    assert torch.allclose(noisy.sum(1), torch.ones(len(noisy)), atol=1e-5)
    classifier = member_classifier(defender, 60, generator(0))
    before, after = ((classifier(sorted_outputs(x)).sigmoid() - 0.5).abs().mean() for x in (outputs, noisy))
    assert after < 0.5 * before
    for budget in (0.05, 0.2):
        little = MemGuard(budget=budget, epochs=20, patience=20).build(CPU)(outputs, defender, generator(0))
        assert float((little - outputs).abs().sum(1).mean()) <= budget * 1.1
    none = MemGuard(budget=0.0, epochs=5).build(CPU)(outputs, defender, generator(0))
    assert torch.equal(none, outputs)


def test_memguard_gives_up_no_row_that_more_steps_would_turn(some) -> None:
    outputs, defender = some
    guard = MemGuard(budget=2.0, epochs=20)
    short, long = (
        version.build(CPU)(outputs, defender, generator(0))
        for version in (guard, guard.with_parameters(patience=STEPS))
    )
    classifier = member_classifier(defender, 20, generator(0))
    before, one, two = (classifier(sorted_outputs(x)) > 0 for x in (outputs, short, long))
    assert int((one != before).sum()) >= 0.9 * len(outputs)
    assert torch.equal(one, two)
    # Few rows may change sides at another weight of the distortion; which rows do depends on the processor.
    assert torch.isclose(short, long, atol=1e-4).all(dim=1).float().mean() >= 0.98
    assert (short - outputs).abs().sum() <= 1.03 * (long - outputs).abs().sum()


def test_masks_by_hand() -> None:
    outputs, defender = torch.tensor([[0.6, 0.26, 0.1, 0.04]]), DefenderOutputs(torch.ones(1, 4), torch.ones(1, 4))

    def masked(**fields: float) -> list[float]:
        return Masking(**fields).build(CPU)(outputs, defender, generator(0))[0].tolist()

    assert masked(top_k=2) == pytest.approx([0.6, 0.26, 0.07, 0.07])
    assert masked(decimals=1) == pytest.approx([0.6, 0.3, 0.1, 0.0])
    roots = outputs[0].sqrt()
    assert masked(temperature=2.0) == pytest.approx((roots / roots.sum()).tolist())
    with pytest.raises(ValueError, match="nothing is masked"):
        Masking()


@pytest.mark.parametrize("name", ["plain-training", "l2", "label-smoothing", "advreg[width=64,warm_up=1]"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_networks_trained_together_end_as_each_alone(name: str, optimiser: str, data: TrainingData) -> None:
    defense, plan = installed().one("defense", name), TrainingPlan(4, 16, 3e-3, optimiser, decay_after=2)
    make = installed().one("model", "mlp[hidden=[32]]").build(CPU)
    halves = [
        TrainingData(data.features[p], data.labels[p], data.reference_features, data.reference_labels)
        for p in (slice(0, 75), slice(75, 150))
    ]
    alone = [
        defense.build(CPU)(make((64,), 10, generator(i)), half, plan, generator(i + 5), lambda done, total: None)
        for i, half in enumerate(halves)
    ]
    networks = [make((64,), 10, generator(i)) for i in range(2)]
    train = defense.build_together(CPU, networks[0])
    assert train is not None
    train(networks, halves, plan, [generator(5), generator(6)], lambda done, total: None)
    for one, other in zip(alone, networks, strict=True):
        assert not other.training
        with torch.no_grad():
            torch.testing.assert_close(one(data.features), other(data.features), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["plain-training", "l2", "dropout", "advreg[width=64,warm_up=0]"])
def test_steps_after_the_decay_are_a_tenth_as_long(name: str, data: TrainingData) -> None:
    defense, whole = installed().one("defense", name), len(data.labels)

    def weights(epochs: int, decay_after: int) -> torch.Tensor:
        network = trained(defense, data, TrainingPlan(epochs, whole, 0.1, "sgd", decay_after))
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    first = weights(1, 0)
    torch.testing.assert_close(weights(2, 1) - first, (weights(2, 0) - first) / 10, rtol=1e-3, atol=1e-6)


def test_large_or_convolutional_networks_are_trained_one_by_one() -> None:
    defense = installed().one("defense", "plain-training")
    for label, shape in (("mlp", (446,)), ("cnn", (3, 8, 8))):
        network = installed().one("model", f"harness/{label}").build(CPU)(shape, 10, generator(0))
        assert defense.build_together(CPU, network) is None


def test_a_release_of_labels_says_the_most_likely_class_and_nothing_else() -> None:
    outputs = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])
    release = installed().one("defense", "label-release").build(CPU)
    labels = release(outputs, DefenderOutputs(outputs, outputs), generator(0))
    assert labels.tolist() == [[0, 1, 0], [1, 0, 0]]

"""Optimiser steps equal torch's bit by bit, and stacked networks answer as each network does, up to rounding."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from imharness.data import generator
from imharness_membership.descent import Adam, Sgd
from imharness_membership.evaluators.neural import AttackNet
from imharness_membership.stacked import answers_of, stack_weights, unstack_weights

KINDS = {"adam": Adam, "sgd": Sgd}
TORCHS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def chain(seed: int, activation: type[torch.nn.Module] = torch.nn.Tanh) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 8), activation(), torch.nn.Linear(8, 3))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_steps_are_those_of_torch(kind: str, weight_decay: float) -> None:
    ours, theirs = chain(0), chain(0)
    x, y = torch.rand(20, 2, 3, generator=generator(1)), torch.randint(3, (20,), generator=generator(2))
    steps = KINDS[kind](ours.parameters(), 0.05, weight_decay)
    optimiser = TORCHS[kind](theirs.parameters(), lr=0.05, weight_decay=weight_decay, fused=True)
    for number in range(7):
        if number == 4:
            steps.learning_rate, optimiser.param_groups[0]["lr"] = 0.005, 0.005
        steps.step(F.cross_entropy(ours(x), y))
        optimiser.zero_grad()
        F.cross_entropy(theirs(x), y).backward()
        optimiser.step()
    assert not torch.equal(ours[1].weight, chain(0)[1].weight)
    for weight, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(weight, other)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_frozen_and_unused_parameters_stay(kind: str) -> None:
    used, frozen, unused = (torch.full((2,), 3.0, requires_grad=on) for on in (True, False, True))
    steps = KINDS[kind]([frozen, unused, used], 0.1, 0.5)
    for _ in range(2):
        steps.step((used * frozen).sum())
    assert (used < 3).all()
    assert torch.equal(frozen, torch.full((2,), 3.0))
    assert torch.equal(unused.detach(), torch.full((2,), 3.0))


def twice_an_activation() -> torch.nn.Sequential:
    same = torch.nn.Tanh()
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 6), same, torch.nn.Linear(6, 6), same)


def twice_a_layer() -> torch.nn.Sequential:
    same = torch.nn.Linear(6, 6)
    return torch.nn.Sequential(torch.nn.Flatten(), same, torch.nn.ReLU(), same)


def tied() -> torch.nn.Sequential:
    first, second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
    second.weight = first.weight
    return torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.ReLU(), second)


def late_flat() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 6))


@pytest.mark.parametrize("build_network", [twice_an_activation, twice_a_layer, tied, late_flat])
def test_networks_that_share_layers_or_flatten_late_answer_as_they_do_alone(
    build_network: Callable[[], torch.nn.Module],
) -> None:
    torch.manual_seed(0)
    networks = [build_network() for _ in range(3)]
    x = torch.rand(3, 5, 2, 3, generator=generator(0))
    answers = answers_of(networks[0])(stack_weights(networks), x)
    torch.testing.assert_close(
        answers, torch.stack([network(batch) for network, batch in zip(networks, x, strict=True)])
    )


@pytest.mark.parametrize("activation", [torch.nn.ReLU, torch.nn.Tanh, torch.nn.Softplus])
def test_stacked_answers_are_those_of_each_network(activation: type[torch.nn.Module]) -> None:
    """Softplus is not supported by `is_chain`, so the general computation is tested, too."""
    networks = [chain(seed, activation) for seed in range(3)]
    x = torch.rand(3, 5, 2, 3, generator=generator(0))
    weights = stack_weights(networks)
    answers = answers_of(networks[0])(weights, x)
    torch.testing.assert_close(
        answers, torch.stack([network(batch) for network, batch in zip(networks, x, strict=True)])
    )
    unstack_weights({name: values + 1 for name, values in weights.items()}, networks)
    torch.testing.assert_close(networks[2][1].bias, chain(2, activation)[1].bias + 1)


def test_stacked_attackers_answer_as_each_alone() -> None:
    torch.manual_seed(0)
    attackers = [AttackNet(4, 16) for _ in range(3)]
    outputs = torch.rand(3, 5, 4, generator=generator(1)).softmax(dim=2)
    labels = torch.randint(4, (3, 5), generator=generator(2))
    answers = attackers[0].stacked(stack_weights(attackers), outputs, labels)
    alone = [attacker(x, y) for attacker, x, y in zip(attackers, outputs, labels, strict=True)]
    torch.testing.assert_close(answers, torch.stack(alone))

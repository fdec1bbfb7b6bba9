"""The training loop: a killed training goes on to the same weights; a wrong or damaged checkpoint is named."""

from pathlib import Path

import pytest
import torch

from imharness.errors import HarnessError
from imharness.randomness import generator
from imharness_training.checkpoints import CheckpointedLoop

STEPS, EVERY = 12, 4


class Killed(Exception):
    pass


def train(file: Path, identity: str = "a", killed_at: int | None = None) -> tuple[torch.Tensor, list[int]]:
    rng, shown = generator(0), []
    network = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(network.weight)
    torch.nn.init.zeros_(network.bias)
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=STEPS)

    def step(number: int) -> None:
        if number == killed_at:
            raise Killed
        loss = (network(torch.randn(5, 3, generator=rng)) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    loop = CheckpointedLoop(file, identity, rng, lambda done, total: shown.append(done))
    loop({"network": network, "optimiser": optimiser, "schedule": schedule}, STEPS, step, every=EVERY)
    return network.weight.detach(), shown


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole, shown = train(tmp_path / "whole")
    assert shown == [0, *range(1, STEPS + 1)]
    with pytest.raises(Killed):
        train(tmp_path / "killed", killed_at=7)
    again, shown = train(tmp_path / "killed")
    assert shown[0] == EVERY
    assert torch.equal(whole, again)
    assert not list(tmp_path.glob("*.part"))


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "c")
    with pytest.raises(HarnessError, match="other settings"):
        train(tmp_path / "c", identity="b")


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"no checkpoint")
    with pytest.raises(HarnessError, match="cannot be read"):
        train(tmp_path / "c")

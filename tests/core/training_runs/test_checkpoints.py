"""The training loop: a killed training goes on to the same weights; a wrong or damaged checkpoint is named."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from imharness.components.registry import Registry, installed
from imharness.contracts.randomness import generator
from imharness.contracts.weight_training import Trained, TrainingContext
from imharness.errors import HarnessError, UsageError
from imharness.training_runs.checkpoints import CheckpointedLoop
from imharness.training_runs.engine import Training, by_defense, by_name
from imharness.training_runs.engine import train as run_training

STEPS, EVERY = 12, 4


class Killed(Exception):
    pass


def train(
    file: Path, identity: str = "a", killed_at: int | None = None, steps: int = STEPS
) -> tuple[torch.Tensor, list[int]]:
    """Train a small network with a checkpoint after every `EVERY` steps; return its weights and the progress."""
    rng, progress = generator(0), []
    network = torch.nn.Linear(3, 1)
    torch.nn.init.zeros_(network.weight)
    torch.nn.init.zeros_(network.bias)
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=steps)

    def step(number: int) -> None:
        if number == killed_at:
            raise Killed
        loss = (network(torch.randn(5, 3, generator=rng)) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    loop = CheckpointedLoop(file, identity, rng, lambda done, total: progress.append(done))
    loop({"network": network, "optimiser": optimiser, "schedule": schedule}, steps, step, every=EVERY)
    return network.weight.detach(), progress


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole, progress = train(tmp_path / "whole")
    assert progress == [0, *range(1, STEPS + 1)]
    with pytest.raises(Killed):
        train(tmp_path / "killed", killed_at=7)
    again, progress = train(tmp_path / "killed")
    assert progress[0] == EVERY
    assert torch.equal(whole, again)
    assert not list(tmp_path.glob("*.part"))


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "c")
    with pytest.raises(HarnessError, match="other settings"):
        train(tmp_path / "c", identity="b")


def test_a_checkpoint_of_another_number_of_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(tmp_path / "c", killed_at=7)
    with pytest.raises(HarnessError, match="of a training of 12 steps, and this one has 20; remove it, or choose") as e:
        train(tmp_path / "c", steps=20)
    assert len(str(e.value).splitlines()) == 1


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"no checkpoint")
    with pytest.raises(HarnessError, match="cannot be read"):
        train(tmp_path / "c")


def drawing(killed_at: int = -1) -> Training:
    """Return a training that adds up what it draws."""

    def run(device: torch.device, context: TrainingContext) -> Trained:
        total = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(total.weight)

        def step(number: int) -> None:
            if number == killed_at:
                raise Killed
            with torch.no_grad():
                total.weight += torch.rand(1, generator=context.rng)

        context.loop({"total": total}, STEPS, step, every=EVERY)
        return Trained({"total": total.weight}, {"steps": STEPS})

    return Training("drawing", "drawing", {}, {}, run, {"training": "drawing"})


def test_the_engine_writes_weights_and_a_card_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    def trained(training: Training, out: Path) -> torch.Tensor:
        facts = run_training(
            training, Registry([]), device=torch.device("cpu"), seed=3, out=out, progress=lambda done, total: None
        )
        assert facts["card"] == {"steps": STEPS}
        return load_file(facts["weights"])["total"]

    whole = trained(drawing(), tmp_path / "whole")
    with pytest.raises(Killed):
        trained(drawing(killed_at=7), tmp_path / "killed")
    assert (tmp_path / "killed" / "drawing.checkpoint").exists()
    assert torch.equal(trained(drawing(), tmp_path / "killed"), whole)
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {"drawing.safetensors", "drawing.json"}
    card = json.loads((tmp_path / "killed" / "drawing.json").read_text())
    assert (card["training"], card["seed"], card["steps"]) == ("drawing", 3, STEPS)


def test_what_cannot_be_trained_is_said_in_one_line() -> None:
    registry = installed()
    with pytest.raises(UsageError, match="nt trains a metric further: add --metric NAME"):
        by_name(registry, "nt", {})
    with pytest.raises(UsageError, match=r"epochz: no such field\. Fields: none"):
        by_name(registry, "embedded-cnn", {"epochz": "3"})
    with pytest.raises(UsageError, match="jpeg is not a training defense"):
        by_defense(registry, "jpeg", "embedded-cnn", {})
    with pytest.raises(UsageError, match="mse cannot be trained further"):
        by_defense(registry, "nt", "mse", {})

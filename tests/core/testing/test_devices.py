"""The check "keeps every tensor on its device" sees components that mix devices, one for each kind, without a GPU."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.component import Component, Info
from imharness.contracts.randomness import generator
from imharness.data import TableDataset, TableSet
from imharness.gradients import GradientDefense, ImageProtection, Model, ReconstructionAttack
from imharness.images import (
    Attack,
    AttackInfo,
    Certificate,
    Certification,
    DefenseInfo,
    DistributionMetric,
    FittedAttack,
    FullReferenceMetric,
    MetricInfo,
    NoReferenceMetric,
    Purification,
)
from imharness.membership import MembershipDefenseInfo, MembershipEvaluator, MembershipRelease, MembershipTraining
from imharness.testing import conformance, trials
from imharness.testing.conformance import CheckResult
from imharness.testing.devices import on_accelerator
from imharness.testing.placement import ACCELERATOR, MAC, acted_accelerator
from imharness.testing.probes import probe_of

CHECK = "keeps every tensor on its device"
HOST = torch.full((1,), 0.5)
"""A tensor of the host: what a component forgot to move."""
DEFENSE = DefenseInfo(id="acme/made", version="1", differentiable=True)
ATTACK = AttackInfo(id="acme/made", version="1", access="white_box", norm="unrestricted", strengths={})
METRIC = MetricInfo(id="acme/made", version="1", higher_means="better_quality", bounds=(0, 1))
MEMBERSHIP = MembershipDefenseInfo(id="acme/made", version="1")
PLAIN = Info(id="acme/made", version="1")


def build(contract: type[Component], facts: Info, build: Callable[..., Any]) -> Component:
    class Made(contract):
        """A component made for a test."""

        info = facts

        def build(self, device: torch.device, *arguments: Any) -> Any:
            return build(device)

    return Made()


def checked(component: Component) -> CheckResult:
    return next(trial for trial in trials(component, 1) if trial.check == CHECK).run()


def purification(purify: Callable[..., torch.Tensor], **facts: Any) -> Component:
    return build(Purification, DEFENSE.model_copy(update=facts), lambda device: purify)


def certification(constant: Callable[[torch.Tensor], torch.Tensor]) -> Component:
    class Made(Certification):
        """A certification made for a test."""

        info = DEFENSE

        def smooth(self, device: torch.device) -> Any:
            return lambda score, images, rng: score(images)[:, None, None] + 0 * constant(images)

        def build(self, device: torch.device) -> Any:
            return lambda scores, bounds: Certificate(*[scores[:, 0, 0]] * 4)

    return Made()


def fitted(fit: Callable[[torch.Tensor], torch.Tensor]) -> Component:
    class Made(FittedAttack):
        """A fitted attack made for a test."""

        info = ATTACK

        def fit(self, images: Any, target: Any, rng: Any, progress: Any) -> dict[str, torch.Tensor]:
            return {"tile": fit(images)}

        def build(self, device: torch.device, tensors: Mapping[str, torch.Tensor]) -> Any:
            return lambda images, target, rng: (images + tensors["tile"]).clamp(0, 1)

    return Made()


def network(features: int, classes: int, device: torch.device) -> torch.nn.Module:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.flatten(1)) * HOST.expand(classes)

    return Scaled(features, classes).to(device)


def mixed(kind: str) -> Component:
    """Return a component that uses a tensor of the host on the device."""
    return {
        "purification": lambda: purification(lambda x, rng: (x + HOST).clamp(0, 1)),
        "certification": lambda: certification(lambda x: HOST),
        "no-reference metric": lambda: build(NoReferenceMetric, METRIC, lambda d: lambda x: (x * HOST).mean((1, 2, 3))),
        "full-reference metric": lambda: build(
            FullReferenceMetric, METRIC, lambda d: lambda x, y: ((x - y) * HOST).square().mean((1, 2, 3))
        ),
        "distribution metric": lambda: build(
            DistributionMetric, METRIC, lambda d: lambda x, y: float((x.mean() - y.mean() + HOST).sum())
        ),
        "attack": lambda: build(Attack, ATTACK, lambda d: lambda x, target, rng: (x + HOST).clamp(0, 1)),
        "fitted attack": lambda: fitted(lambda x: x[0] + HOST),
        "reconstruction attack": lambda: build(
            ReconstructionAttack, PLAIN, lambda d: lambda g, model, shape, rng, p: rng.uniform(*shape) * HOST
        ),
        "gradient defense": lambda: build(
            GradientDefense, PLAIN, lambda d: lambda g, rng: {name: x * HOST for name, x in g.items()}
        ),
        "image protection": lambda: build(
            ImageProtection, PLAIN, lambda d: lambda x, targets, pool, rng: (x * HOST, targets)
        ),
        "evaluator": lambda: build(MembershipEvaluator, PLAIN, lambda d: lambda q: q.target_outputs[:, 0] - HOST),
        "release": lambda: build(
            MembershipRelease, MEMBERSHIP, lambda d: lambda outputs, defender, rng: outputs * HOST
        ),
        "training": lambda: build(
            MembershipTraining,
            MEMBERSHIP,
            lambda d: lambda net, data, plan, rng, p: net(data.features[torch.randperm(2, generator=rng)] * HOST),
        ),
        "model": lambda: build(
            Model, PLAIN, lambda d: lambda shape, classes, rng: network(3 * shape[1] * shape[2], classes, d)
        ),
        "table": lambda: build(
            TableDataset, PLAIN, lambda d: TableSet(torch.ones(12, 3), torch.zeros(12, dtype=torch.int64), 2)
        ),
    }[kind]()


KINDS = (
    "purification", "certification", "no-reference metric", "full-reference metric", "distribution metric", "attack",
    "fitted attack", "reconstruction attack", "gradient defense", "image protection", "evaluator", "release",
    "training", "model", "table",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_that_mixes_devices_fails(kind: str) -> None:
    outcome = checked(mixed(kind))
    assert outcome.status == "failed"
    assert "cpu" in outcome.message
    assert "cuda:0" in outcome.message


def looping(x: torch.Tensor, rng: Any) -> torch.Tensor:
    for _ in range(30):
        x = x.cpu().to(x.device)
    return x


WRONG = {
    "numpy() of a tensor on cuda:0": lambda x, rng: torch.from_numpy(x.numpy()),
    "returned a result on cpu": lambda x, rng: x.detach().cpu(),
    "with a generator on cpu": lambda x, rng: x * torch.rand(1, generator=generator(0), device=x.device),
    "copies between host and accelerator 60 times": looping,
}


@pytest.mark.parametrize("message", WRONG)
def test_what_only_a_gpu_would_show_is_seen(message: str) -> None:
    assert message in checked(purification(WRONG[message], differentiable=False)).message


def through_the_host(x: torch.Tensor, rng: Any) -> torch.Tensor:
    coded = torch.from_numpy(x.detach().mul(255).round().byte().cpu().numpy())
    return coded.to(x.device).float() / 255


def depends_on_values(x: torch.Tensor, rng: Any) -> torch.Tensor:
    bright = x.mean((1, 2, 3)) > 0.5
    return torch.cat([x[bright], x[~bright]]) if float(x.sum()) > 0 else x


def test_what_stays_in_place_passes_and_what_crosses_is_told() -> None:
    assert checked(purification(lambda x, rng: (x * 0.5 + 0.1).clamp(0, 1))).message == (
        "nothing crossed between host and device"
    )
    result = checked(purification(through_the_host, differentiable=False))
    assert result.status == "passed"
    assert result.message.startswith("1 copies to the host (most: test_devices.py:")
    assert "1 copies to the device" in result.message
    forced = purification(lambda x, rng: torch.from_numpy(x.numpy(force=True)).to(x.device), differentiable=False)
    assert checked(forced).status == "passed"
    waited = checked(purification(depends_on_values, differentiable=False))
    assert waited.status == "passed"
    assert "waits" in waited.message


def test_an_acted_accelerator_computes_what_the_cpu_computes() -> None:
    """Training with momentum and batch statistics, by gradients and a random order, gives the numbers of the CPU."""

    def trained(device: torch.device) -> list[float]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(144, 2)]
            net, images = torch.nn.Sequential(*layers), torch.rand(8, 3, 8, 8)
        net, images = net.to(device), images.to(device)
        labels = torch.arange(8, device=device) % 2
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(3):
            order = torch.randperm(8, generator=generator(1)).to(device)
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images[order]), labels[order])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert all(p.device == device for p in net.parameters())
        return losses

    here = trained(torch.device("cpu"))
    with acted_accelerator():
        there = trained(ACCELERATOR)
    assert there == pytest.approx(here, rel=1e-6)


def test_an_acted_accelerator_takes_lists_as_indices() -> None:
    def picked(device: torch.device) -> list[float]:
        numbers = torch.arange(24.0).reshape(4, 6).to(device)
        numbers[[1, 3], 2:4] = -1
        numbers[[True, False, False, False], 0] = 9
        return [
            *numbers[[3, 0]].flatten().tolist(),
            *numbers[:, [5, 1]].flatten().tolist(),
            *numbers[[]].flatten().tolist(),
        ]

    here = picked(torch.device("cpu"))
    with acted_accelerator():
        there = picked(ACCELERATOR)
    assert there == here


def test_a_component_is_called_on_the_accelerator_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[torch.device] = []
    monkeypatch.setattr(conformance, "on_accelerator", lambda probe, device: called.append(device) or "called")
    component = purification(lambda images, rng: images)
    [trial] = [candidate for candidate in trials(component, 1) if candidate.check == "runs on the accelerator too"]
    messages = []
    for cuda, mac in ((False, False), (False, True), (True, False)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mac=mac: mac)
        messages.append(trial.run().message)
    assert messages == ["no accelerator on this machine", "called", "called"]
    assert called == [MAC, ACCELERATOR]


@pytest.mark.parametrize(("kind", "name"), [("attack", "ifgsm"), ("attack", "dlg"), ("defense", "jpeg")])
def test_what_a_result_is_checked_with_is_on_the_accelerator_too(kind: str, name: str) -> None:
    """The check of an attack asks its target again: one on the CPU would refuse images of the accelerator."""
    probe = probe_of(installed().one(kind, name), 1)
    with acted_accelerator():
        assert on_accelerator(probe, ACCELERATOR).startswith("largest difference to the CPU")


def test_nothing_of_the_act_is_left_behind() -> None:
    with acted_accelerator():
        tensor = torch.ones(2, device=ACCELERATOR)
    with pytest.raises(Exception, match="after it had ended"):
        tensor + 1
    assert type(torch.Generator()) is torch.Generator
    leaf = torch.ones(2, requires_grad=True)
    (2 * leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0]


def test_an_acted_accelerator_imports_nothing_which_a_limit_of_time_could_break_off() -> None:
    """What it needs is imported when the trials are made, and not by a run that makes none."""
    code = (
        "import sys, torch\n"
        "from imharness.testing import examination, trials\n"
        "from imharness.testing.placement import acted_accelerator\n"
        "from imharness_perceptual.metrics import mse\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "trials(*mse.components())\n"
        "before = set(sys.modules)\n"
        "with acted_accelerator():\n"
        "    (torch.ones(3).to('cuda') + 1).median()\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

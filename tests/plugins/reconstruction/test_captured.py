"""A step of an inversion can be captured: it asks no tensor for its value, and replayed it gives the same numbers."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness_reconstruction import inversion
from imharness_reconstruction.attacks.gradattack import GradAttack
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.attacks.invgrad_prior import InvGradPrior
from imharness_reconstruction.captured import captured
from imharness_reconstruction.inversion import CosineDistance, GradientInversion, Rows, directions
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import image_gradients

CPU, SHAPE, COUNT = torch.device("cpu"), (3, 8, 8), 4
ATEN = torch.ops.aten
REFUSED = {
    ATEN._local_scalar_dense.default,
    ATEN.is_nonzero.default,
    ATEN.equal.default,
    ATEN.nonzero.default,
    ATEN.masked_select.default,
    ATEN.lift_fresh.default,
    ATEN._unique2.default,
}
"""Operations that a graph cannot hold: the host reads a value, shapes depend on values, data come from the host."""
NETWORKS = (
    "harness/lenet",
    "harness/pixel-mlp[width=32]",
    "harness/resnet20[width=2]",
    "harness/tiny-vit[width=8,depth=1]",
)
Step = Callable[[Rows, torch.Tensor], None]
ATTACKS = (InvGrad(), GradAttack(), InvGradPrior())


class Capturable(TorchDispatchMode):
    """Raises `AssertionError` for operations that a graph cannot hold."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        chooses = func is ATEN.index.Tensor and any(i is not None and i.dtype == torch.bool for i in args[1])
        assert func not in REFUSED, func
        assert not chooses, "boolean index"
        return func(*args, **(kwargs or {}))


class Asks(InvGrad):
    """Asks for a value in each step."""

    def prior(self, model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1).sum(dim=1) * images.detach().mean().item()


class Chooses(InvGrad):
    """Chooses pixels by their values in each step."""

    def prior(self, model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
        return super().prior(model, images) + images[images > 0.5].sum()


class Brings(InvGrad):
    """Brings a number from the host in each step."""

    def prior(self, model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
        return super().prior(model, images) * torch.tensor(0.5)


def shared(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Return a network and its gradients of `COUNT` images; those of every second image are pruned to a fifth."""
    network = installed().one("model", name).build(CPU)(SHAPE, 5, generator(0)).eval().requires_grad_(False)
    gradients = image_gradients(network, torch.rand(COUNT, *SHAPE, generator=generator(1)), torch.arange(COUNT))
    for values in gradients.values():
        least = values.abs().flatten(1).quantile(0.8, dim=1)
        least[::2] = 0
        values *= values.abs() >= least.view(-1, *[1] * (values.ndim - 1))
    return network, gradients


def rows_and_step(
    attack: GradientInversion, name: str
) -> tuple[Rows, torch.Tensor, Callable[[Rows, torch.Tensor], None]]:
    """Return rows before a step, its number, and the step, which has been taken once with other rows."""
    network, gradients = shared(name)

    def fresh() -> Rows:
        masks = survivors(gradients)
        assert masks is not None
        x = torch.rand(COUNT, *SHAPE, generator=generator(2))
        return Rows(x, torch.arange(COUNT), directions(gradients), [masks[name] for name in gradients])

    paces = attack.paces(30)

    def step(rows: Rows, number: torch.Tensor) -> None:
        attack._step(network, [*gradients], rows, paces, number)

    step(fresh(), torch.zeros(1, dtype=torch.int64))  # the first one finds out how to compute this network's gradients
    return fresh(), torch.zeros(1, dtype=torch.int64), step


def as_tensors(rows: Rows) -> list[torch.Tensor]:
    masks = rows.masks or []
    return [rows.x, rows.mean, rows.square, rows.lowest, rows.going, rows.labels, *rows.wanted, *masks]


def as_rows(tensors: tuple[torch.Tensor, ...]) -> Rows:
    x, mean, square, lowest, going, labels, *others = tensors
    rows = Rows(x, labels, others[: len(others) // 2], others[len(others) // 2 :])
    rows.mean, rows.square, rows.lowest, rows.going = mean, square, lowest, going
    return rows


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.label)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_asks_no_tensor_for_its_value(attack: GradientInversion, name: str) -> None:
    rows, number, step = rows_and_step(attack, name)
    with Capturable():
        step(rows, number)


@pytest.mark.parametrize("attack", [Asks(), Chooses(), Brings()], ids=lambda attack: type(attack).__name__)
def test_a_step_that_cannot_be_captured_is_noticed(attack: GradientInversion) -> None:
    rows, number, step = rows_and_step(attack, NETWORKS[0])
    with pytest.raises(AssertionError), Capturable():
        step(rows, number)


@pytest.mark.parametrize("name", NETWORKS[:3])
def test_a_recorded_step_gives_the_same_numbers_for_twenty_steps(name: str) -> None:
    rows, number, step = rows_and_step(GradAttack(tolerance=0.2), name)
    replayed, counter = as_rows(tuple(t.clone() for t in as_tensors(rows))), number.clone()
    graph = make_fx(lambda counter, *tensors: step(as_rows(tensors), counter))(counter, *as_tensors(replayed))
    replayed, counter = as_rows(tuple(t.clone() for t in as_tensors(rows))), number.clone()
    for _ in range(20):
        step(rows, number)
        graph(counter, *as_tensors(replayed))
    assert number.item() == 20
    for ours, theirs in zip(as_tensors(rows), as_tensors(replayed), strict=True):
        assert torch.equal(ours, theirs)


def test_a_step_that_asks_for_a_value_cannot_be_recorded() -> None:
    rows, number, step = rows_and_step(Asks(), NETWORKS[0])
    with pytest.raises(RuntimeError, match="value out of a tracing tensor"):
        make_fx(lambda counter, *tensors: step(as_rows(tensors), counter))(number, *as_tensors(rows))


@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("name", NETWORKS[:2])
def test_images_that_have_stopped_stay_until_a_device_is_asked(
    name: str, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, gradients = shared(name)

    def rebuilt(tolerance: float) -> torch.Tensor:
        attack = InvGrad(steps=50, starts=starts, learning_rate=0.05, tolerance=tolerance).build(CPU)
        return attack(gradients, network, SHAPE, ImageRng(range(COUNT)), lambda done, total: None)

    whole, masks = rebuilt(0), survivors(gradients)
    assert masks is not None
    ours = image_gradients(network, whole, torch.arange(COUNT))
    distances = CosineDistance.apply(*(ours[n] * masks[n] for n in gradients), *directions(gradients))
    tolerance = float(distances.sort().values[COUNT // 2])
    plain = rebuilt(tolerance)
    assert 0 < (plain == whole).flatten(1).all(dim=1).sum() < COUNT  # some stopped, some did not
    for steps in (7, 20, 1000):
        monkeypatch.setattr(inversion, "LOOK_CPU", steps)
        torch.testing.assert_close(rebuilt(tolerance), plain, atol=5e-3, rtol=0)  # a larger batch may round otherwise


def test_without_a_gpu_a_step_is_taken_as_it_is() -> None:
    step = partial(print)
    assert captured(step, CPU, enabled=True) is step

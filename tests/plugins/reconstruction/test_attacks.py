"""Gradients per image, the batched L-BFGS, and attacks that bring real images back."""

import pytest
import torch

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness.data import seeded_init
from imharness_reconstruction import inversion
from imharness_reconstruction.attacks.gradattack import statistics_distance
from imharness_reconstruction.convergence import Shared, matching
from imharness_reconstruction.inversion import CosineDistance, directions, flat
from imharness_reconstruction.per_image import (
    averaged,
    batch_weights,
    gradients_and_inputs,
    image_gradients,
    labels_from_gradients,
)
from imharness_vision.lbfgs import _Memory, minimise

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def setting():
    registry = installed()
    data = registry.one("dataset", "thumbnails[size=16,per_photograph=1]").build(CPU)
    images = data.load([0, 1, 2])
    labels = torch.from_numpy(data.columns["label"])[:3].long()
    network = registry.one("model", "harness/lenet").build(CPU)((3, 16, 16), 9, generator(3)).requires_grad_(False)
    return network, images, labels


@pytest.fixture(scope="module")
def tiny():
    """Images of 8 px, which L-BFGS brings back in a third of the steps."""
    images, labels = thumbnails([0, 1, 2], size=8)
    network = installed().one("model", "harness/lenet").build(CPU)((3, 8, 8), 9, generator(0)).requires_grad_(False)
    return network, images, labels


def test_gradients_are_those_of_a_loop(setting) -> None:
    network, images, labels = setting
    gradients = image_gradients(network, images, labels)
    network.requires_grad_(True)
    for i in range(3):
        network.zero_grad()
        torch.nn.functional.cross_entropy(network(images[i : i + 1]), labels[i : i + 1]).backward()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(gradients[name][i], parameter.grad, rtol=1e-4, atol=1e-6)
    network.requires_grad_(False)
    assert labels_from_gradients(gradients, network, (3, 16, 16)).tolist() == labels.tolist()


class Twisted(torch.nn.Module):
    """A layer that is used twice, one that is never used, groups, batch norm, many channels, operations in place."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 3, (3, 2), (2, 1), (0, 2), 2)
        self.first, self.norm = torch.nn.Conv2d(3, 4, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(4)
        self.twice, self.unused = torch.nn.Conv2d(4, 4, 3, padding=1, groups=2), torch.nn.Linear(2, 2)
        self.own, self.last = inner, torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + torch.nn.functional.interpolate(self.narrow(self.wide(x).sigmoid()), x.shape[2:])
        x = self.norm(self.first(x))
        activations = self.twice(x.relu_())
        activations += x
        return self.last(self.own(self.twice(activations)).sigmoid_().mean(dim=(2, 3)))


@pytest.mark.parametrize("build_inner", [torch.nn.Identity, lambda: torch.nn.GroupNorm(2, 4)])
def test_gradients_and_their_slopes_are_those_of_a_loop_for_any_network(build_inner) -> None:
    rng = generator(0)
    with seeded_init(rng):
        network = Twisted(build_inner()).double().eval()
    network.norm.running_mean.uniform_(generator=rng)
    images = torch.rand(3, 3, 8, 8, dtype=torch.float64, generator=rng).requires_grad_(True)
    targets = torch.rand(3, 5, dtype=torch.float64, generator=rng).softmax(dim=1)
    used = {name: p for name, p in network.named_parameters() if "unused" not in name}
    gradients = image_gradients(network, images, targets)
    assert not gradients["unused.weight"].any()
    loop = []
    for i in range(3):
        loss = torch.nn.functional.cross_entropy(network(images[i : i + 1]), targets[i : i + 1])
        loop.append(torch.autograd.grad(loss, list(used.values()), create_graph=True))
    for name, values in zip(used, zip(*loop, strict=True), strict=True):
        torch.testing.assert_close(gradients[name], torch.stack(values))
    ours, plain = (
        torch.autograd.grad(sum(g.square().sum() for g in group), images)[0]
        for group in (gradients.values(), [g for values in loop for g in values])
    )
    torch.testing.assert_close(ours, plain)


def test_distance_of_directions_and_its_slope_are_those_of_the_cosine() -> None:
    rng = generator(4)
    ours = {"a": torch.randn(5, 3, 2, generator=rng), "b": torch.randn(5, 4, generator=rng)}
    targets = {name: torch.randn(g.shape, generator=rng) for name, g in ours.items()}
    leaves = [g.requires_grad_(True) for g in ours.values()]
    distances = CosineDistance.apply(*leaves, *directions(targets))
    plain = 1 - torch.nn.functional.cosine_similarity(flat(ours), flat(targets), dim=1)
    torch.testing.assert_close(distances, plain)
    weights = torch.arange(5.0)
    for a, b in zip(*(torch.autograd.grad((weights * d).sum(), leaves) for d in (distances, plain)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_batched_lbfgs_with_a_short_memory_is_torchs() -> None:
    scale = torch.linspace(1, 40, 12, dtype=torch.float64)
    start = torch.linspace(-1, 2, 12, dtype=torch.float64)[None]
    ours, _ = minimise(lambda x, rows: (scale * x.square() + x**4).sum(dim=1), start, 9, 4, quiet)
    x = start.clone().requires_grad_(True)
    optimiser = torch.optim.LBFGS([x], lr=1, max_iter=9, history_size=4, tolerance_grad=0, tolerance_change=0)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (scale * x.square() + x**4).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    torch.testing.assert_close(ours, x.detach(), rtol=1e-6, atol=1e-9)


def test_batched_lbfgs_is_torchs_row_by_row() -> None:
    scale = torch.tensor([[1.0, 10, 3, 7], [2.0, 5, 1, 30]], dtype=torch.float64)
    start = torch.tensor([[1.0, -2, 0.5, 1], [0.3, 2, -1, 4]], dtype=torch.float64)

    def bowl(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (scale * x.square() + 0.1 * x**4).sum(dim=1)

    ours, value = minimise(lambda x, rows: bowl(x, scale[rows]), start, 12, 100, lambda done, total: None)
    for i in range(2):
        x = start[i : i + 1].clone().requires_grad_(True)
        optimiser = torch.optim.LBFGS([x], lr=1, max_iter=12, history_size=100, tolerance_grad=0, tolerance_change=0)

        def closure(x: torch.Tensor = x, i: int = i, optimiser=optimiser) -> torch.Tensor:
            optimiser.zero_grad()
            loss = bowl(x, scale[i : i + 1]).sum()
            loss.backward()
            return loss

        optimiser.step(closure)
        torch.testing.assert_close(ours[i], x.detach()[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(value, bowl(ours, scale))


def two_loops(gradient: torch.Tensor, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return the direction of one row by algorithm 7.4 of Nocedal and Wright, "Numerical Optimization" (2006).

    The scale is that of the newest pair of a step and a change of the gradient; `sy` is their product.
    """
    pairs = [(s, y, s @ y) for s, y in pairs]
    usable = [pair for pair in pairs if pair[2] > 0]
    q, alphas = -gradient, []
    for s, y, sy in reversed(usable):
        alphas.append(s @ q / sy)
        q = q - alphas[-1] * y
    s, y, sy = pairs[-1]
    q = q * (sy / (y @ y)) if sy > 0 else q
    for (s, y, sy), alpha in zip(usable, reversed(alphas), strict=True):
        q = q + (alpha - y @ q / sy) * s
    return q


@pytest.mark.parametrize("size", [1, 3, 5, 20])
def test_the_direction_of_lbfgs_is_that_of_the_two_loops(size: int) -> None:
    """Pairs fill the memory and replace old ones, a row leaves, and pairs of row 1 with negative products are skipped.

    The directions are compared at every number of pairs.
    """
    rng, memory = generator(0), _Memory(torch.zeros(3, 8, dtype=torch.float64), size)
    pairs, rows = [], [0, 1, 2]
    for number in range(12):
        gradient = torch.randn(len(rows), 8, generator=rng, dtype=torch.float64)
        direction = memory.direction(gradient)
        for i, row in enumerate(rows):
            recent = [(step[row], change[row]) for step, change in pairs[-size:]]
            expected = two_loops(gradient[i], recent) if recent else -gradient[i]
            torch.testing.assert_close(direction[i], expected, rtol=1e-8, atol=1e-10)
        step = torch.randn(3, 8, generator=rng, dtype=torch.float64)
        change = step * torch.linspace(0.5, 4, 8) + 0.1 * torch.randn(3, 8, generator=rng, dtype=torch.float64)
        if number in (2, 6, 7, 11):
            change[1] *= -1
        pairs.append((step, change))
        memory.add(step[rows], change[rows])
        if number == 8:
            rows = [1, 2]
            memory.keep(torch.tensor([False, True, True]))


def test_lbfgs_leaves_rows_alone_that_are_done() -> None:
    met: list[list[int]] = []

    def bowl(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        met.append(rows.tolist())
        return (torch.tensor([[1.0, 2], [1, 50], [0, 0]])[rows] * x.square()).sum(dim=1) + (rows == 2)

    enough = torch.tensor([1e-2, 1e-6, 0.5])
    ends, value = minimise(bowl, torch.ones(3, 2), 400, 10, quiet, enough=enough)
    assert (value[:2] <= enough[:2]).all()
    assert value[2] == 1
    torch.testing.assert_close(ends[:2].square().sum(dim=1), torch.zeros(2), rtol=0, atol=1e-2)
    assert [1, 2] in met  # the first row was done before the second
    assert met[-1] == [2]
    assert len(met) < 120  # the third row cannot get better, and is given up


def test_every_image_of_cafe_stands_in_as_many_batches_and_their_rank_is_full() -> None:
    mean = batch_weights(installed().one("attack", "cafe").batches(18), 18)
    assert (mean > 0).sum(dim=1).tolist() == [4] * len(mean)
    assert int(torch.linalg.matrix_rank(mean)) == 18


def test_an_attack_has_converged_where_it_explains_what_was_shared(setting) -> None:
    network, images, labels = setting
    targets = torch.nn.functional.one_hot(labels, 9).float()
    plain = image_gradients(network, images, targets)
    guesses = images.clone()
    guesses[2] = torch.rand(images[2].shape, generator=generator(0))

    def converged(gradients: dict[str, torch.Tensor]) -> list[bool]:
        shared = Shared(gradients, images, targets, torch.arange(3), torch.eye(3))
        return matching(network, shared, guesses)["converged"].tolist()

    assert converged(plain) == [True, True, False]
    for name in ("gaussian-gradient", "laplacian-gradient", "gradient-pruning[share=0.9]"):
        guard = installed().one("defense", name).build(CPU)
        assert converged(guard(plain, ImageRng(range(3)))) == [True, True, False]
    assert converged({name: torch.zeros_like(g) for name, g in plain.items()}) == [True] * 3


@pytest.mark.parametrize("sigma", [0.001, 0.01, 0.03])
def test_a_grey_image_has_not_converged_however_strong_the_noise_is(sigma: float) -> None:
    data = installed().one("dataset", "thumbnails[size=20]").build(CPU)
    images = data.load(list(range(12)))
    targets = torch.nn.functional.one_hot(torch.from_numpy(data.columns["label"])[:12].long(), 9).float()
    network = installed().one("model", "untrained").build(CPU)((3, 20, 20), 9, generator(3)).requires_grad_(False)
    guard = installed().one("defense", f"gaussian-gradient[sigma={sigma}]").build(CPU)
    gradients = guard(image_gradients(network, images, targets), ImageRng(range(12)))
    shared = Shared(gradients, images, targets, torch.arange(12), torch.eye(12))
    grey = torch.full_like(images, 0.5)
    facts = matching(network, shared, images)
    told_apart = facts["grey"] - facts["attainable"] > 1e-3
    assert told_apart.any()
    assert facts["converged"].all()
    for poor in (grey, grey + 0.2 * (images - grey)):
        assert not matching(network, shared, poor)["converged"][told_apart].any()


def test_a_further_start_is_for_images_that_did_not_come_back(tiny) -> None:
    network, images, labels = tiny
    shared = image_gradients(network, images, labels)
    attack = installed().one("attack", "idlg").with_parameters(iterations=35, tolerance=1e-3)

    def residual(starts: int) -> torch.Tensor:
        run = attack.with_parameters(starts=starts).build(CPU)
        rebuilt = run(shared, network, (3, 8, 8), ImageRng([10, 11, 12]), quiet)
        gradients = image_gradients(network, rebuilt, labels)
        return sum((gradients[name] - g).square().flatten(1).sum(dim=1) for name, g in shared.items())

    once, twice = residual(1), residual(2)
    size = sum(g.square().flatten(1).sum(dim=1) for g in shared.values())
    done = once < 1e-3 * size
    assert done.tolist() == [True, True, False]
    assert torch.equal(once[done], twice[done])
    assert (twice <= 1.05 * once).all()


def test_an_image_starts_again_only_where_much_of_its_gradient_is_left(tiny) -> None:
    network, images, labels = tiny
    shared = image_gradients(network, images, labels)
    size = sum(g.square().flatten(1).sum(dim=1) for g in shared.values())

    def residual(**changes: float) -> torch.Tensor:
        attack = installed().one("attack", "idlg").with_parameters(iterations=35, **changes).build(CPU)
        gradients = image_gradients(network, attack(shared, network, (3, 8, 8), ImageRng([1, 2, 3]), quiet), labels)
        return sum((gradients[name] - g).square().flatten(1).sum(dim=1) for name, g in shared.items()) / size

    once = residual(starts=1)
    between = float(once.sort().values[1:].prod().sqrt())  # the worst of the three is above
    twice, near = residual(starts=2, again=between), once < between
    assert near.tolist() == [False, True, True]
    assert torch.equal(twice[near], once[near])
    assert (twice[~near] < 0.5 * once[~near]).all()
    assert torch.equal(residual(starts=2, again=1.0), once)


@pytest.mark.parametrize("tolerance", [0.012, 0.01, 0.006])
def test_starts_that_stop_early_leave_the_others_with_the_gradients_of_their_own_images(tolerance: float) -> None:
    network = installed().one("model", "harness/lenet").build(CPU)((3, 32, 32), 10, generator(0)).requires_grad_(False)
    images = torch.rand(4, 3, 32, 32, generator=generator(1))
    shared = image_gradients(network, images, torch.arange(4))
    attack = installed().one("attack", "invgrad").with_parameters(steps=40, starts=2, tolerance=tolerance).build(CPU)

    def rebuilt(rows: list[int]) -> torch.Tensor:
        return attack({name: g[rows] for name, g in shared.items()}, network, (3, 32, 32), ImageRng(rows), quiet)

    alone = torch.cat([rebuilt([row]) for row in range(4)])
    assert (rebuilt([0, 1, 2, 3]) - alone).abs().flatten(1).mean(dim=1).max() < 0.01


@pytest.mark.parametrize(("name", "starts", "iterations"), [("dlg", 1, 110), ("idlg", 2, 70)])
def test_an_attack_brings_images_back_and_no_image_depends_on_the_batch(
    name: str, starts: int, iterations: int, tiny
) -> None:
    network, images, labels = tiny
    attack = installed().one("attack", name).with_parameters(iterations=iterations, starts=starts).build(CPU)
    shared = image_gradients(network, images, labels)
    rebuilt = attack(shared, network, (3, 8, 8), ImageRng([1, 2, 3]), lambda done, total: None)
    error = (rebuilt - images).square().flatten(1).mean(dim=1)
    assert error.median() < 0.01, error
    one = {name: values[1:2] for name, values in shared.items()}
    alone = attack(one, network, (3, 8, 8), ImageRng([2]), lambda done, total: None)
    assert (alone - images[1:2]).square().mean() < max(2 * float(error[1]), 0.02)


def psnr(rebuilt: torch.Tensor, images: torch.Tensor) -> float:
    return float(-10 * (rebuilt - images).square().flatten(1).mean(dim=1).log10().mean())


def thumbnails(positions: list[int], size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    data = installed().one("dataset", f"harness/thumbnails[size={size}]").build(CPU)
    return data.load(positions), torch.from_numpy(data.columns["label"])[positions].long()


def quiet(done: int, total: int) -> None:
    pass


def test_dlg_recovers_most_of_ten_real_images() -> None:
    images, labels = thumbnails(list(range(10)), size=8)
    network = installed().one("model", "harness/lenet").build(CPU)((3, 8, 8), 9, generator(0)).requires_grad_(False)
    attack = installed().one("attack", "dlg").with_parameters(iterations=140, starts=1).build(CPU)
    rebuilt = attack(image_gradients(network, images, labels), network, (3, 8, 8), ImageRng(range(10)), quiet)
    error = (rebuilt - images).square().flatten(1).mean(dim=1)
    assert int((error < 1e-3).sum()) >= 7, error


def test_invgrad_on_real_images_and_what_pruning_does_to_it() -> None:
    images, labels = thumbnails([0, 2, 4], size=16)
    model = installed().one("model", "harness/convnet8[width=16]").build(CPU)
    network = model((3, 16, 16), 9, generator(1)).eval().requires_grad_(False)
    shared = image_gradients(network, images, labels)
    pruned = installed().one("defense", "gradient-pruning[share=0.99]").build(CPU)(shared, ImageRng(range(3)))
    attack = installed().one("attack", "invgrad").with_parameters(steps=50)

    def reached(gradients: dict[str, torch.Tensor], seeds: list[int], **changes: bool) -> list[float]:
        run = attack.with_parameters(**changes).build(CPU)
        rebuilt = run(gradients, network, (3, 16, 16), ImageRng(seeds), quiet)
        return [psnr(chunk, images) for chunk in rebuilt.split(3)]

    seeds = list(range(3))
    plain, adaptive = reached({name: torch.cat([g, pruned[name]]) for name, g in shared.items()}, seeds * 2)
    (naive,) = reached(pruned, seeds, surviving=False)
    assert plain > 15, plain
    assert adaptive < plain - 1
    assert naive < adaptive - 5


def test_the_best_of_several_starts_is_kept_image_by_image(setting) -> None:
    network, images, labels = setting
    shared = image_gradients(network, images, labels)
    attack = installed().one("attack", "invgrad")

    def distance(starts: int) -> torch.Tensor:
        run = attack.with_parameters(steps=60, starts=starts).build(CPU)
        gradients = image_gradients(network, run(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), quiet), labels)
        flattened = (torch.cat([g[name].flatten(1) for name in shared], dim=1) for g in (gradients, shared))
        return 1 - torch.cosine_similarity(*flattened, dim=1)

    assert (distance(3) <= distance(1) + 1e-3).all()


def test_cafe_has_the_images_where_the_linear_layer_is_the_first() -> None:
    images, labels = thumbnails(list(range(9)))
    network = (
        installed().one("model", "mlp[hidden=[32]]").build(CPU)((3, 32, 32), 9, generator(0)).requires_grad_(False)
    )
    attack = installed().one("attack", "cafe")
    shared = averaged(image_gradients(network, images, labels), batch_weights(attack.batches(9), 9))
    rebuilt = attack.build(CPU)(shared, network, (3, 32, 32), ImageRng(range(9)), quiet)
    torch.testing.assert_close(rebuilt, images, rtol=0, atol=1e-3)


def test_cafe_comes_nearer_than_its_start(setting) -> None:
    network, images, labels = setting
    attack = installed().one("attack", "cafe")
    shared = averaged(image_gradients(network, images, labels), batch_weights(attack.batches(3), 3))
    near, far = (attack.with_parameters(steps=steps).build(CPU) for steps in (100, 1))
    values = [psnr(a(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), quiet), images) for a in (near, far)]
    assert values[0] > values[1] + 1


def test_cafe_brings_the_inputs_of_the_linear_layer_nearer_the_more_they_weigh(setting) -> None:
    network, images, labels = setting
    attack = installed().one("attack", "cafe").with_parameters(steps=20)
    shared = averaged(image_gradients(network, images, labels), batch_weights(attack.batches(3), 3))
    layer = next(layer for layer in network.modules() if isinstance(layer, torch.nn.Linear))
    inputs = gradients_and_inputs(network, images, labels, layer)[1]

    def away(weight: float) -> float:
        run = attack.with_parameters(inputs=weight).build(CPU)
        rebuilt = run(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), quiet)
        reached = gradients_and_inputs(network, rebuilt, labels, layer)[1]
        return float((reached - inputs).detach().square().mean())

    assert away(100.0) < 0.9 * away(0.0)


def test_batch_norm_statistics_of_an_image_are_held_against_the_running_ones() -> None:
    layers = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    layers.eval().requires_grad_(False)
    images = torch.rand(2, 3, 8, 8, generator=generator(0))
    distances = statistics_distance(layers, images)
    for i in range(2):
        first, second = images[i], layers[1](layers[0](images[i : i + 1]))[0]
        expected = sum(
            (x.mean(dim=(1, 2)) - 0).norm() + (x.var(dim=(1, 2), correction=0) - 1).norm() for x in (first, second)
        )
        assert float(distances[i]) == pytest.approx(float(expected), rel=1e-4)
    assert statistics_distance(torch.nn.Conv2d(3, 4, 3), images).tolist() == [0, 0]
    assert not any(layer._forward_pre_hooks for layer in layers)


def test_gradattack_uses_the_statistics(setting) -> None:
    network, images, labels = setting
    shared = image_gradients(network, images, labels)
    attack = installed().one("attack", "gradattack").with_parameters(steps=20)
    rebuilt = attack.build(CPU)(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), quiet)
    assert rebuilt.shape == images.shape
    assert float(attack.prior(torch.nn.BatchNorm2d(3).eval(), images).min()) > float(
        attack.with_parameters(batch_norm=0.0).prior(torch.nn.BatchNorm2d(3).eval(), images).min()
    )


def test_invgrad_comes_nearer_than_chance(setting) -> None:
    network, images, labels = setting
    attack = installed().one("attack", "harness/invgrad").with_parameters(steps=150).build(CPU)
    shared = image_gradients(network, images, labels)
    rebuilt = attack(shared, network, (3, 16, 16), ImageRng([1, 2, 3]), lambda done, total: None)
    grey = (images - images.mean(dim=(2, 3), keepdim=True)).square().flatten(1).mean(dim=1)
    noise = (torch.rand(images.shape, generator=generator(0)) - images).square().flatten(1).mean(dim=1)
    error = (rebuilt - images).square().flatten(1).mean(dim=1)
    assert (error < noise).all(), (error, noise, grey)


def test_invgrad_takes_no_steps_that_move_less_than_rounding(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, labels = setting
    gradients, shape = image_gradients(network, images, labels), tuple(images.shape[1:])
    attack, progress = installed().one("attack", "harness/invgrad").with_parameters(steps=80, learning_rate=0.5), []

    def rebuilt_images() -> torch.Tensor:
        streams = ImageRng([4, 5, 6], CPU)
        return attack.build(CPU)(gradients, network, shape, streams, lambda *done: progress.append(done))

    short = rebuilt_images()
    assert progress[-1] == (77, 77)  # three steps of 0.0005 are below half a level of 8 bits; four are above
    assert attack.with_parameters(learning_rate=1e-6).worth() == 1
    monkeypatch.setattr(inversion, "HALF_LEVEL", 0.0)
    moved = (short - rebuilt_images()).abs().max()
    assert progress[-1] == (80, 80)
    assert 0 < moved < 0.5 / 255


@pytest.mark.parametrize(
    ("name", "letter"),
    [
        ("dlg", "A"),
        ("idlg", "A"),
        ("invgrad", "B"),
        ("gradattack", "B"),
        ("invgrad-prior", "D"),
        ("invgrad-prior[gradient=false]", ""),
        ("spear", "B"),
        ("april", "B"),
        ("imprint", "G"),
        ("cafe", ""),
        ("federated", "B"),
        ("federated[labels_known=true]", "B"),
        ("federated[epochs=2]", "C"),
        ("federated[training_mode=true]", "B"),
        ("federated[statistics_known=true,training_mode=true]", "E"),
    ],
)
def test_threat_models_have_the_letters_of_the_sok(name: str, letter: str) -> None:
    """Carletti et al. list DLG and iDLG as A, inverting gradients and SPEAR as B, imprint layers as G."""
    assert installed().one("attack", name).letter == letter

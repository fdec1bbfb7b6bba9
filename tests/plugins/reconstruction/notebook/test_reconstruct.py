"""`ih.reconstruct` gives bitwise what the track's steps compute from the same gradients, and names wrong inputs."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from imharness.cli.commands import context
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.running.numerics import fresh_numerics
from imharness.testing.samples import classifier
from imharness_reconstruction.attacks.imprint import Imprint
from imharness_reconstruction.notebook.reconstruct import reconstruct
from imharness_reconstruction.per_image import image_gradients
from imharness_reconstruction.steps import leakage
from imharness_reconstruction.steps import reconstruct as step

ATTACK = "invgrad[steps=16]"


@fresh_numerics()  # as a worker computes
def test_it_gives_what_the_run_computes() -> None:
    registry = installed()
    named = {"dataset": "harness/thumbnails", "model": "lenet", "defense": "plain-gradient", "attack": ATTACK}
    roles = {kind: registry.one(kind, name) for kind, name in {**named, "metric": "ssim-uniform7"}.items()}
    run = context(roles, limit=3, device="cpu")
    images = replace(run.images(), names=("0", "1", "2"))
    run.images = lambda role="dataset", limited=True: images  # type: ignore[method-assign]
    private = images.load([0, 1, 2])
    labels = torch.from_numpy(np.array(images.columns["label"])).long()
    output = step(run)
    run._outputs = {"rebuilt": output}
    scored = leakage(run)

    model = run.build("model")((3, 32, 32), int(labels.max()) + 1, _generator(run))
    gradients = image_gradients(model.eval().requires_grad_(False), private, labels)
    result = reconstruct(gradients, model, (3, 32, 32), attack=ATTACK, originals=private, metrics=["ssim-uniform7"])
    assert np.array_equal(np.round(result.images * 255).astype(np.uint8), output.arrays["images"])
    for column in ("loss", "attainable", "grey", "converged"):
        assert np.array_equal(result.rows("reconstruct")[column], output.rows[column])
    assert result.rows("reconstruct")["label"].tolist() == labels.tolist()
    assert np.array_equal(result.rows("leakage")["score"], scored.rows["score"])


def _generator(run) -> torch.Generator:
    """Return the generator from which the step initialises the network."""
    from imharness.contracts.randomness import generator

    return generator(int(run.rng([run.component("model").label], "initialisation").integers(0, 2**62)[0]))


@pytest.fixture
def model() -> torch.nn.Module:
    return classifier(3 * 8 * 8, 4, 0)


def gradients_of(model: torch.nn.Module, image: torch.Tensor, label: int) -> list[torch.Tensor]:
    loss = torch.nn.functional.cross_entropy(model(image[None]), torch.tensor([label]))
    return list(torch.autograd.grad(loss, list(model.parameters())))


def test_a_list_of_gradients_of_one_image_is_enough(model: torch.nn.Module) -> None:
    torch.manual_seed(0)
    image = torch.rand(3, 8, 8)
    shared_gradients = gradients_of(model.train(), image, 2)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    result = reconstruct(shared_gradients, model, (3, 8, 8), attack="invgrad[steps=200]")
    assert result.images.shape == (1, 3, 8, 8)
    columns = result.rows("reconstruct")
    assert columns["label"].tolist() == [2]
    assert columns["loss"][0] < 0.1 * columns["grey"][0]
    assert "attainable" not in columns
    assert result.steps == ("reconstruct",)
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    again = reconstruct(
        dict(zip(dict(model.named_parameters()), shared_gradients, strict=True)),
        model,
        (3, 8, 8),
        seed=1,
        attack="invgrad[steps=200]",
    )
    assert not np.array_equal(result.images, again.images)
    assert "invgrad" in repr(result)
    assert "<table" in result._repr_html_()


def test_the_first_line_says_whether_the_image_was_rebuilt(model: torch.nn.Module) -> None:
    image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
    shared, sizes = gradients_of(model, image, 2), (3, 8, 8)
    near = reconstruct(shared, model, sizes, attack="invgrad[steps=200]", originals=image, metrics=["psnr"])
    pale = 0.5 + 0.05 * (image - 0.5)  # a flat image is close to it
    far = reconstruct(gradients_of(model, pale, 2), model, sizes, attack="invgrad[steps=8]", originals=pale)
    blind = reconstruct(shared, model, sizes, attack=ATTACK)
    other = reconstruct([-g for g in shared], model, sizes, attack=ATTACK, originals=image)
    results = (near, far, blind, other)
    rows = [result.rows("reconstruct") for result in results]
    assert [rows[number]["closer"].tolist() for number in (0, 1, 3)] == [[True], [False], [False]]
    assert [rows[number]["explained"].tolist() for number in (0, 1, 3)] == [[True], [True], [False]]
    first = [repr(result).splitlines()[0] for result in results]
    assert first[3].endswith(
        "Your original does not explain your gradient, so that the failure of InvGrad shows nothing."
    )
    assert " rebuilds your image: " in first[0]
    assert " does not rebuild your image: " in first[1]
    assert f" to a loss of {rows[2]['loss'][0]:.2g}; " in first[2]
    assert f"a flat image {near.table().column('harness/psnr')[1]:.4g}." in repr(near).splitlines()[1]
    for result, line in zip(results, first, strict=True):
        assert "harness/" not in line
        assert len(line.split()) <= 20
        assert result._repr_html_().startswith(f"<p><strong>{line}</strong></p>")


def test_it_says_that_the_originals_explain_their_gradients(model: torch.nn.Module) -> None:
    image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
    result = reconstruct(gradients_of(model, image, 2), model, (3, 8, 8), attack=ATTACK, originals=image)
    assert result.rows("reconstruct")["explained"].tolist() == [True]
    assert result.doubts == ()


@pytest.mark.parametrize("how", ["batch", "training mode", "steps"])
def test_it_says_that_the_original_does_not_explain_the_gradient(how: str) -> None:
    stream = torch.Generator().manual_seed(0)
    images, labels = torch.rand(4, 3, 8, 8, generator=stream), torch.tensor([0, 1, 0, 1])
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 4)
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=stream))
    network.train(how == "training mode")
    parameters = list(network.parameters())
    some = slice(4) if how == "batch" else slice(1)

    def gradient() -> list[torch.Tensor]:
        loss = torch.nn.functional.cross_entropy(network(images[some]), labels[some])
        return list(torch.autograd.grad(loss, parameters))

    shared_gradients = gradient()
    if how == "steps":
        start, rate = [p.detach().clone() for p in parameters], 1.0
        for _ in range(5):
            moved = gradient()
            with torch.no_grad():
                for p, g in zip(parameters, moved, strict=True):
                    p -= rate * g
        shared_gradients = [(a - b.detach()) / (5 * rate) for a, b in zip(start, parameters, strict=True)]
        with torch.no_grad():
            for p, a in zip(parameters, start, strict=True):
                p.copy_(a)
    result = reconstruct(shared_gradients, network, (3, 8, 8), attack=ATTACK, originals=images[0])
    rows = result.rows("reconstruct")
    assert (rows["explained"].tolist(), rows["converged"].tolist()) == ([False], [False])
    assert "The original does not explain its gradient" in repr(result)
    assert any("negative at several classes" in line for line in result.doubts) == (how == "batch")


def test_what_does_not_fit_is_named(model: torch.nn.Module) -> None:
    image = torch.rand(3, 8, 8)
    shared_gradients = gradients_of(model, image, 0)
    shape = (3, 8, 8)
    headless = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4, bias=False))
    for wanted, message in (
        (lambda: reconstruct(shared_gradients[:-1], model, shape), "gradients has 3 tensors; the model has 4"),
        (lambda: reconstruct([g[..., :1] for g in shared_gradients], model, shape), "gradients: .* must have shape"),
        (
            lambda: reconstruct({"a": shared_gradients[0]}, model, shape),
            "gradients names 'a', which is not a parameter",
        ),
        (lambda: reconstruct([g * np.nan for g in shared_gradients], model, shape), "holds NaN"),
        (
            lambda: reconstruct(shared_gradients, model, (8, 8)),
            r"shape: expected \(3, height, width\), .* got \(8, 8\)",
        ),
        (lambda: reconstruct(shared_gradients, model, (3, 9, 8)), r"shape: the model fails on .* \(3, 9, 8\): addmm"),
        (lambda: reconstruct(shared_gradients, model, shape, attack="ifgsm"), "attack: .* does not rebuild images"),
        (lambda: reconstruct(shared_gradients, model, shape, attack="cafe"), "attack: .*several batches"),
        (lambda: reconstruct(shared_gradients, model, shape, metrics=["psnr"]), "give them as originals"),
        (lambda: reconstruct(shared_gradients, model, shape, originals=image[:, :7]), "originals must have shape"),
        (
            lambda: reconstruct(shared_gradients, model, shape, originals=image, metrics=["embedded-cnn"]),
            "metrics: .* scores an image alone",
        ),
        (lambda: reconstruct([torch.ones(4, 192)], headless, shape), "model: no parameter is a bias of its logits"),
    ):
        with pytest.raises(UsageError, match=message):
            wanted()


def normed(activation: torch.nn.Module | None = None) -> torch.nn.Module:
    """Return a network with batch norm in evaluation mode, and weights of a fixed stream.

    With the default sigmoid the inputs of its last layer are positive.
    """
    bent = torch.nn.Sigmoid() if activation is None else activation
    stream = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), bent, torch.nn.Flatten(), torch.nn.Linear(216, 4)
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=stream))
    return network.eval()


def update(network: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float) -> list:
    """Return the mean gradient of steps of torch's SGD: weights before less weights after, over steps and rate."""
    client = copy.deepcopy(network)
    optimiser = torch.optim.SGD(client.parameters(), lr=rate)
    for _ in range(epochs):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(client(images), labels).backward()
        optimiser.step()
    pairs = zip(network.parameters(), client.parameters(), strict=True)
    return [(before - after).detach() / (rate * epochs) for before, after in pairs]


@pytest.mark.parametrize(("epochs", "training"), [(1, False), (3, False), (1, True), (2, True)])
def test_a_round_of_federated_learning_is_explained_by_its_originals(epochs: int, training: bool) -> None:
    stream = torch.Generator().manual_seed(1)
    images = torch.rand(2, 3, 2, 2, generator=stream).repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
    network, labels = normed(torch.nn.ReLU()).train(training), torch.tensor([2, 0])
    shared_update = update(network, images, labels, epochs, 0.1)
    attack = f"federated[images=2,epochs={epochs},training_mode={str(training).lower()},steps=16]"
    result = reconstruct(shared_update, network, (3, 8, 8), attack=attack, originals=images, labels=labels)
    rows = result.rows("reconstruct")
    assert result.images.shape == (2, 3, 8, 8)
    assert sorted(rows["label"].tolist()) == [0, 2]
    assert rows["explained"].all(), rows["attainable"]
    assert "do not explain" not in repr(result)
    assert "honest but curious" in repr(result)
    others = reconstruct(shared_update, network, (3, 8, 8), attack=attack, originals=images.flip(0, 3), labels=labels)
    assert not others.rows("reconstruct")["explained"].any()
    assert "do not explain" in repr(others)


@pytest.mark.parametrize(("epochs", "training"), [(5, False), (1, True)])
def test_it_says_which_round_explains_the_gradient(epochs: int, training: bool) -> None:
    image, label = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([2])
    network = normed(torch.nn.ReLU()).train(training)
    shared_update = update(network, image, label, epochs, 0.1)
    result = reconstruct(shared_update, network, (3, 8, 8), attack=ATTACK, originals=image)
    assert not result.rows("reconstruct")["explained"].any()
    wanted = "training_mode=true" if training else "epochs=5,local_rate=0.1"
    assert any(f"federated[images=1,{wanted}]" in line for line in result.doubts)


def test_an_imprint_layer_gives_the_images() -> None:
    network, images = normed(), torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1)) * 0.2
    images = images - images.mean(dim=(1, 2, 3), keepdim=True) + torch.tensor([0.3, 0.5, 0.7])[:, None, None, None]
    attack, labels = Imprint(images=3, centre=0.5, spread=0.2), torch.tensor([2, 0, 1])
    sent = attack.sent(network, (3, 8, 8))
    shared_update = update(sent, images, labels, 1, 0.1)
    result = reconstruct(shared_update, sent, (3, 8, 8), attack=attack, originals=images, labels=labels)
    assert np.abs(result.images - images.numpy()).max() < 0.01
    assert result.rows("reconstruct")["converged"].all()
    with pytest.raises(UsageError, match=r"imprint\.measure"):
        reconstruct(update(network, images, labels, 1, 0.1), network, (3, 8, 8), attack=attack)


def test_what_does_not_fit_a_round_is_named() -> None:
    network, images, labels = normed(), torch.rand(2, 3, 8, 8), torch.tensor([2, 0])
    shared_update, shape = update(network, images, labels, 1, 0.1), (3, 8, 8)
    attack_name = "federated[images=2,training_mode=true,statistics_known=true]"
    for wanted, message in (
        (lambda: reconstruct(shared_update, network, shape, originals=images), r"federated\[images=2\]"),
        (
            lambda: reconstruct(shared_update, network, shape, attack="federated[images=2,labels_known=true]"),
            "labels: the att",
        ),
        (
            lambda: reconstruct(shared_update, network, shape, attack="federated[images=2]", labels=[1]),
            "labels: expected 2 whole",
        ),
        (
            lambda: reconstruct(shared_update, network, shape, attack="federated[images=2]", labels=[1, 9]),
            "labels: there are 4",
        ),
        (lambda: reconstruct(shared_update, network, shape, attack=attack_name), "statistics: the attack knows them"),
        (
            lambda: reconstruct(shared_update, network, shape, attack=attack_name, statistics={"a": [1]}),
            "'a' is not a buffer",
        ),
        (
            lambda: reconstruct(
                shared_update, network, shape, attack=attack_name, statistics={"1.running_mean": np.ones((2, 6))}
            ),
            "must have shape",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            wanted()


def test_a_forgotten_shape_and_weights_instead_of_changes_are_one_clear_line(model: torch.nn.Module) -> None:
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    shared_gradients = gradients_of(model, image, 1)
    with pytest.raises(UsageError, match=r"^shape: give the size of an image as \(3, height, width\)"):
        reconstruct(gradients_of(model, image, 1), model)
    weights = {name: p + 0.01 * g for (name, p), g in zip(model.named_parameters(), shared_gradients, strict=True)}
    for candidate in (weights, list(weights.values()), model.state_dict()):
        with pytest.raises(UsageError, match=r"^gradients: these are weights, .*weights before - weights after"):
            reconstruct(candidate, model, (3, 8, 8))
    changes = [-10 * gradient for gradient in gradients_of(model, image, 1)]
    assert len(reconstruct(changes, model, (3, 8, 8), attack="invgrad[steps=8]").images) == 1


def test_batch_norm_in_training_mode_is_suspected_of_a_batch_too() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Sigmoid(), torch.nn.Flatten()
        model = torch.nn.Sequential(*layers, torch.nn.Linear(4 * 36, 4)).train()
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    loss = torch.nn.functional.cross_entropy(model(images), torch.tensor([1, 3]))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    attack = "federated[images=2,steps=8]"
    result = reconstruct(gradients, model, (3, 8, 8), attack=attack, originals=images)
    assert any("training mode" in doubt and "add training_mode=true" in doubt for doubt in result.doubts)
    attack_name = attack.replace("steps", "training_mode=true,steps")
    assert (
        reconstruct(gradients, model, (3, 8, 8), attack=attack_name, originals=images)
        .rows("reconstruct")["explained"]
        .all()
    )

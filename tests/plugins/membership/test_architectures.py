"""Networks of images and vectors: published sizes, numbers of operations, reproducible starts, and fine-tuning."""

from pathlib import Path

import pytest
import torch
import torchvision
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import get_model

from imharness.components.registry import installed
from imharness.data import generator
from imharness.errors import Unavailable, UsageError
from imharness.membership import NetworkFactory
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.tasks import TaskSpec
from imharness_membership.models.densenet_bc import DenseNetBc
from imharness_membership.models.fine_tuned import WEIGHTS
from imharness_membership.stacked import answers_of, is_chain, stack_weights
from imharness_membership.workload import FEATURES, IMAGES, PASSES, workload_of

PLAIN = "harness/plain-training"
CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("alexnet", 2.47),
        ("vgg19", 20.04),
        ("densenet-bc[depth=100,growth=12]", 0.77),
        ("densenet-bc", 25.62),
        ("wrn[width=10]", 36.48),
    ],
)
def test_the_networks_have_as_many_parameters_as_published(name: str, millions: float) -> None:
    """The numbers, in millions and for CIFAR-10, are in the repository from which the paper has its DenseNet."""
    with META:
        network = installed().one("model", name).build(META)((3, 32, 32), 10, generator(0))
    assert round(sum(weights.numel() for weights in network.parameters()) / 1e6, 2) == millions


@pytest.mark.parametrize("name", ["alexnet", "vgg19", "densenet-bc[depth=10,growth=4]"])
def test_each_starts_where_its_generator_says_and_learns_images_of_any_colours(name: str) -> None:
    make = installed().one("model", name).build(CPU)
    network = make((1, 32, 48), 7, generator(1))
    again, other = (make((1, 32, 48), 7, generator(seed)).state_dict() for seed in (1, 2))
    first = network.state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    output = network(torch.rand(2, 1, 32, 48))
    assert output.shape == (2, 7)
    output.square().sum().backward()
    assert all(weights.grad is not None for weights in network.parameters())
    with pytest.raises(UsageError, match="rows must be images"):
        make((446,), 7, generator(0))


def test_densenets_have_whole_blocks() -> None:
    with pytest.raises(ValueError, match="multiple of 6"):
        DenseNetBc(depth=121)


def counted(make: NetworkFactory, shape: tuple[int, ...], classes: int) -> int:
    """Return the operations that torch counts for one row, on the meta device, where nothing is computed."""
    with META:
        network = make(shape, classes, generator(0)).eval()
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, *shape))
    return counter.get_total_flops()


def test_operations_of_all_networks_are_those_that_torch_counts() -> None:
    """Every network of the package that no other test counts: those of images, and fully connected ones."""
    sizes = {"harness/cnn": (1, 64, 64), "harness/fine-tuned-resnet50": (3, 224, 224)}
    models = [entry for entry in installed().of_kind("model") if entry.info.id not in ("harness/mlp", "harness/wrn")]
    models = [component for component in models if type(component).__module__.startswith("imharness_membership")]
    models.append(installed().one("model", "densenet-bc[depth=100,growth=12]"))
    seen = set()
    for model in models:
        kind, cost = next((kind, cost) for kind, cost in IMAGES.items() if kind in model.label)
        pretrained: NetworkFactory = lambda *_: get_model("resnet50", weights=None)  # noqa: E731
        make = pretrained if "fine-tuned" in kind else model.build(META)
        assert counted(make, sizes.get(model.info.id, (3, 32, 32)), 10) == pytest.approx(cost, rel=0.02), model.label
        seen.add(kind)
    assert seen == set(IMAGES)


@pytest.mark.parametrize("dataset", list(FEATURES))
def test_operations_of_fully_connected_networks_are_those_that_torch_counts(dataset: str) -> None:
    model = installed().one("model", "mlp")
    features, classes = FEATURES[dataset]
    spec = TaskSpec(
        track="harness/membership",
        step="train",
        version="1",
        components={"model": model.ref(), "dataset": installed().one("dataset", dataset).ref()},
        options={"epochs": 1},
        limit=None,
        seed=0,
        needs={},
    )
    cost = workload_of(spec, 6, 1)
    assert cost is not None
    # A row that is learnt costs PASSES passes; a member, a non-member and two rows of the adversary get answers.
    rows = PASSES + 2 + 2
    assert cost.operations == rows * counted(model.build(META), (features,), classes)


def test_the_paper_profile_trains_the_architectures_of_figures_4_and_12() -> None:
    """They are three depths, three widths and three activations, without sigmoid on Texas100.

    `few` are networks that are trained without a defense and with the one of figure 12 alone.
    """
    for dataset, defense, others in (("purchase100", "advreg", 6), ("texas100", "memguard", 4)):
        only = {"dataset": [f"harness/{dataset}"], "evaluator": ["harness/confidence"]}
        graph = plan_track("harness/membership", load_profile("paper"), installed(), only=only, whole=True)
        met: dict[str, set[str]] = {}
        for task in graph.tasks.values():
            if task.spec.step == "evaluate":
                components = task.spec.components
                met.setdefault(components["model"].label, set()).add(
                    components.get("matched", components["defense"]).label
                )
        few = [labels for labels in met.values() if len(labels) == 2]
        assert len(few) == others
        assert all({label.partition("[")[0] for label in names} == {PLAIN, f"harness/{defense}"} for names in few)
        assert all(len(labels) > 5 for labels in met.values() if len(labels) != 2)


def test_sigmoid_networks_train_at_once_as_one_by_one() -> None:
    make = installed().one("model", "mlp[activation=sigmoid,hidden=[8]]").build(CPU)
    networks = [make((6,), 3, generator(seed)) for seed in range(2)]
    assert is_chain(networks[0])
    assert any(isinstance(layer, torch.nn.Sigmoid) for layer in networks[0])
    x = torch.rand(2, 5, 6, generator=generator(9))
    together = answers_of(networks[0])(stack_weights(networks), x)
    torch.testing.assert_close(
        together, torch.stack([network(batch) for network, batch in zip(networks, x, strict=True)])
    )


def test_fine_tuning_starts_from_the_weights_of_imagenet_with_a_new_last_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    model = installed().one("model", "fine-tuned-resnet50")
    with pytest.raises(Unavailable, match="resnet50"):
        model.build(CPU)
    published = get_model("resnet50", weights=None)
    file = tmp_path / WEIGHTS.file
    file.parent.mkdir(parents=True)
    torch.save(published.state_dict(), file)
    monkeypatch.setattr(type(WEIGHTS), "fits", lambda self, file: True)
    make = model.build(CPU)
    first, other = make((3, 64, 64), 196, generator(1)).eval(), make((3, 64, 64), 196, generator(2)).eval()
    images = torch.rand(2, 3, 64, 64, generator=generator(3))
    normal = torchvision.transforms.functional.normalize(images, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    published.fc = first[1].fc
    torch.testing.assert_close(first(images), published.eval()(normal))
    assert first(images).shape == (2, 196)
    assert not torch.equal(first[1].fc.weight, other[1].fc.weight)
    assert torch.equal(first[1].conv1.weight, other[1].conv1.weight)
    assert all(weights.requires_grad for weights in first.parameters())
    with pytest.raises(UsageError, match="colour images"):
        make((1, 64, 64), 8, generator(0))

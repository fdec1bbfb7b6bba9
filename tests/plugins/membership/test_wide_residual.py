"""Wide residual networks, their training, the views of images that attacks ask about, and data sets of images."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from imharness.components.registry import installed
from imharness.data import generator
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.leaderboard import auc
from imharness.membership import References, TrainingData, TrainingPlan
from imharness_membership.augmenting import VIEWS, augmented, view
from imharness_membership.evaluators.lira import Lira
from imharness_membership.models.wrn import Wrn
from imharness_membership.training import rate_after, to_the_end, together
from imharness_membership.workload import wide_residual

CPU = torch.device("cpu")
CROPS = TrainingPlan(3, 4, 0.05, "sgd", momentum=0.9, weight_decay=5e-4, schedule="cosine", augmentation="crop-flip")


@pytest.mark.parametrize(
    ("depth", "width", "classes", "parameters"),
    [(28, 2, 10, 1_467_610), (28, 2, 100, 1_479_220), (16, 4, 10, 2_748_890), (10, 1, 10, 77_850)],
)
def test_parameters_and_operations_are_those_of_the_architecture(
    depth: int, width: int, classes: int, parameters: int
) -> None:
    """The authors give 2.7 M parameters for WRN-16-4, and WRN-28-2 has 1.5 M. Operations are those torch counts."""
    network = Wrn(depth=depth, width=width).build(CPU)((3, 32, 32), classes, generator(0)).eval()
    assert sum(weights.numel() for weights in network.parameters()) == parameters
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        assert network(torch.rand(2, 3, 32, 32)).shape == (2, classes)
    assert counted.get_total_flops() / 2 == pytest.approx(wide_residual(depth, width), rel=1e-3)


def test_it_starts_where_its_generator_says_and_names_what_it_cannot_take() -> None:
    make = Wrn(depth=10, width=1).build(CPU)
    first, again, other = (make((3, 32, 32), 10, generator(seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])
    with pytest.raises(UsageError, match="at least 8 px"):
        make((446,), 30, generator(0))
    with pytest.raises(ValueError, match="multiple of 6"):
        Wrn(depth=27)


def test_every_crop_is_a_window_of_the_image_with_reflections_around_it() -> None:
    image = torch.rand(1, 3, 14, 13)
    wide = F.pad(image, (4,) * 4, mode="reflect")[0]
    windows = [wide[:, i : i + 14, j : j + 13] for i in range(9) for j in range(9)]
    windows += [window.flip(2) for window in windows]
    crops = augmented(image.expand(2000, -1, -1, -1), CROPS, generator(0))
    drawn = torch.tensor([next(i for i, window in enumerate(windows) if torch.equal(window, one)) for one in crops])
    assert len(drawn.unique()) == len(windows)
    # The first 81 windows are not mirrored.
    assert float((drawn >= 81).float().mean()) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 2000))
    plain = TrainingPlan(3, 4, 0.05)
    assert augmented(image, plain, generator(0)) is image
    with pytest.raises(HarnessError, match="leave augmentation and queries out"):
        augmented(torch.rand(5, 446), CROPS, generator(0))


def test_views_begin_with_the_image_and_are_shifts_and_mirror_images() -> None:
    images = torch.rand(2, 3, 12, 12)
    assert view(images, 0) is images
    assert torch.equal(view(images, 1), images.flip(3))
    seen = [view(images, number) for number in range(len(VIEWS))]
    assert len({view.numpy().tobytes() for view in seen}) == len(VIEWS) == 18
    number = VIEWS.index((4, 0, False))
    assert torch.equal(seen[number][:, :, 4:], images[:, :, :-4])
    assert torch.equal(view(torch.ones(3, 5), 0), torch.ones(3, 5))
    with pytest.raises(HarnessError, match="images"):
        view(torch.ones(3, 5), 1)


def test_the_cosine_is_that_of_torch() -> None:
    plan = TrainingPlan(10, 4, 0.1, schedule="cosine")
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 10)
    for done in range(1, 11):
        optimiser.step()
        theirs.step()
        assert rate_after(plan, done) == pytest.approx(optimiser.param_groups[0]["lr"], abs=1e-12)


def test_training_follows_momentum_decay_and_cosine_as_written_with_torch() -> None:
    x, y = torch.rand(12, 6, generator=generator(1)), torch.randint(3, (12,), generator=generator(2))
    plan = TrainingPlan(5, 4, 0.1, "sgd", momentum=0.9, weight_decay=0.01, schedule="cosine")
    torch.manual_seed(0)
    ours, theirs = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
    theirs.load_state_dict(ours.state_dict())
    to_the_end()(ours, TrainingData(x, y, x, y), plan, generator(4), lambda done, total: None)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    schedule, rng = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 5), generator(4)
    for _ in range(5):
        for batch in torch.randperm(12, generator=rng).split(4):
            optimiser.zero_grad()
            F.cross_entropy(theirs(x[batch]), y[batch]).backward()
            optimiser.step()
        schedule.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-4, atol=1e-6)


def test_with_crops_networks_trained_together_end_as_each_alone() -> None:
    make = installed().one("model", "mlp[hidden=[8]]").build(CPU)
    x, y = torch.rand(24, 1, 8, 8, generator=generator(1)), torch.randint(3, (24,), generator=generator(2))
    halves = [TrainingData(x[p], y[p], x, y) for p in (slice(0, 12), slice(12, 24))]
    alone = [
        to_the_end()(make((1, 8, 8), 3, generator(i)), half, CROPS, generator(i + 5), lambda done, total: None)
        for i, half in enumerate(halves)
    ]
    networks = [make((1, 8, 8), 3, generator(i)) for i in range(2)]
    together()(networks, halves, CROPS, [generator(5), generator(6)], lambda done, total: None)
    for one, other in zip(alone, networks, strict=True):
        torch.testing.assert_close(one(x), other(x), rtol=1e-4, atol=1e-5)


def test_lira_gains_from_independent_views_what_theory_says_and_nothing_from_copies() -> None:
    """Answers are N(0, 1) without the row and N(1, 1) with it: with q independent views the AUC is Phi(sqrt(q / 2))."""
    rng, models, rows = generator(0), 40, 4000
    inside, member = torch.rand(models, rows, generator=rng) < 0.5, torch.rand(rows, generator=rng) < 0.5
    odds = inside + torch.randn(models, rows, generator=rng)
    seen = member + torch.randn(rows, generator=rng)
    views = inside[:, None] + torch.randn(models, 7, rows, generator=rng)
    theirs = member + torch.randn(7, rows, generator=rng)
    population = torch.zeros(models, 1), torch.zeros(1)
    lira = Lira(global_variance=True)
    for further in (0, 1, 7):
        references = References(odds, inside, *population, views[:, :further], theirs[:further])
        scores = lira.statistic(seen, population[1], references, models).numpy()
        theory = 0.5 * (1 + math.erf(math.sqrt((1 + further) / 2) / math.sqrt(2)))
        assert auc(scores, member.numpy()) == pytest.approx(theory, abs=0.02)
    alone = lira.statistic(seen, population[1], References(odds, inside, *population), models)
    copies = References(odds, inside, *population, odds[:, None].expand(-1, 3, -1), seen.expand(3, -1))
    torch.testing.assert_close(lira.statistic(seen, population[1], copies, models), alone, rtol=1e-4, atol=1e-4)


def test_cifar10_in_its_published_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    dataset = installed().one("dataset", "cifar10")
    with pytest.raises(Unavailable, match="cifar10"):
        dataset.require()
    (tmp_path / "cifar10").mkdir()
    row = np.zeros((2, 1 + 3072), np.uint8)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        row[:, 0], row[1, 1 + 1024] = (number % 10, 9), 255
        (tmp_path / "cifar10" / f"{name}.bin").write_bytes(row.tobytes())
    table = dataset.build(CPU)
    assert table.features.shape == (12, 3, 32, 32)
    assert table.labels.tolist() == [0, 6, 1, 6, 2, 6, 3, 6, 4, 6, 5, 6]
    assert float(table.features[1, 1, 0, 0]) == 1
    assert float(table.features.sum()) == 6
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(row.tobytes()[:-1])
    with pytest.raises(HarnessError, match="no multiple of 3073"):
        dataset.build(CPU)


def test_images_in_folders_are_rows(tmp_path: Path) -> None:
    for split, name, level in (("train", "cat", 0), ("train", "dog", 255), ("test", "dog", 51)):
        folder = tmp_path / split / name
        folder.mkdir(parents=True)
        Image.new("RGB", (20, 16), (level, level, level)).save(folder / "1.png")
    dataset = installed().one("dataset", "image-folders").with_parameters(path=str(tmp_path), size=8)
    table = dataset.build(CPU)
    assert table.features.shape == (3, 3, 8, 8)
    assert table.labels.tolist() == [0, 1, 1]
    assert table.features.amax(dim=(1, 2, 3)).tolist() == pytest.approx([0, 1, 0.2])
    before = dataset.content()
    (tmp_path / "test" / "dog" / "2.png").write_bytes((tmp_path / "test" / "dog" / "1.png").read_bytes())
    assert dataset.content() != before
    with pytest.raises(Unavailable, match="not a folder"):
        dataset.with_parameters(path=str(tmp_path / "gone")).require()

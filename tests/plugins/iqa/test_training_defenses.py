"""APGD by itself, the corrected labels, the gradient penalty, and what training does to a metric."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from tests.faults.forked import Command

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.data import ImageSet
from imharness.errors import Unavailable, UsageError
from imharness.training import TuningPlan
from imharness_iqa.auto_pgd import auto_pgd, checkpoints
from imharness_iqa.defenses.nt import gradient_norm
from imharness_iqa.metrics.koncept512 import KonCept512
from imharness_iqa.metrics.linearity import Linearity, norm_in_norm
from imharness_iqa.tuning import corrected, error_of, tuned

CPU = torch.device("cpu")
SMALL = "harness/severity-ladder[severities=[3],size=48]"


def grey(n: int) -> torch.Tensor:
    return torch.full((n, 3, 2, 2), 0.5)


def test_checkpoints_are_those_of_the_paper() -> None:
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(2) == [1, 2]


def test_apgd_reaches_the_corner_of_the_ball_on_a_linear_loss() -> None:
    weight = torch.randn(3, 2, 2, generator=generator(0))
    attacked = auto_pgd(lambda x: (x * weight).sum(dim=(1, 2, 3)), grey(2), 0.1, 5)
    assert torch.allclose(attacked, 0.5 + 0.1 * weight.sign().expand_as(attacked))


def test_apgd_halves_its_step_where_a_fixed_one_oscillates_and_every_image_for_itself() -> None:
    peaks = torch.tensor([0.503, 0.58]).view(2, 1, 1, 1)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return -(x - peaks).square().sum(dim=(1, 2, 3))

    attacked = auto_pgd(loss, grey(2), 0.1, 60)
    assert (attacked - peaks).abs().max() < 2e-3
    alone = torch.cat(
        [auto_pgd(lambda x, i=i: -(x - peaks[i]).square().sum(dim=(1, 2, 3)), grey(1), 0.1, 60) for i in range(2)]
    )
    assert torch.equal(attacked, alone)


def test_apgd_keeps_the_best_point_it_saw_and_asks_no_more_than_it_says() -> None:
    seen = []

    def loss(x: torch.Tensor) -> torch.Tensor:
        value = torch.sin(60 * x).sum(dim=(1, 2, 3))
        seen.append(value.detach())
        return value

    attacked = auto_pgd(loss, grey(3), 0.2, 9)
    best = torch.stack(seen[:10]).amax(dim=0)
    assert len(seen) == 10
    assert torch.equal(loss(attacked).detach(), best)
    assert (attacked - 0.5).abs().max() <= 0.2 + 1e-6


def test_labels_fall_by_the_distance_and_stay_inside_their_range() -> None:
    labels = corrected(torch.tensor([-1.0, -4.5, 0.0]), torch.tensor([0.1, 0.5, 0.0]), -5.0, 0.0)
    assert labels.tolist() == [-1.5, -5.0, 0.0]


def test_the_error_is_smooth_l1_over_the_range() -> None:
    scores, labels = torch.tensor([0.0, 10.0]), torch.tensor([1.0, 60.0])
    assert error_of(scores, labels, 100.0).tolist() == pytest.approx([0.5 * 0.01**2 / 0.1, 0.5 - 0.05])


def test_the_gradient_penalty_is_the_l1_norm_of_a_linear_metrics_gradient() -> None:
    weight = torch.randn(12, generator=generator(1))
    images, gradient = grey(2), weight.view(1, 3, 2, 2).expand(2, -1, -1, -1)

    def network(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) @ weight

    penalty = gradient_norm(network, images, network(images), gradient, 0.01)
    assert torch.allclose(penalty, weight.abs().sum().expand(2), rtol=1e-4)


def test_the_loss_of_linearity_sees_no_scale_and_is_one_for_reversed_labels() -> None:
    """If labels have two values equally often and scores reverse them, each difference is 2 / sqrt(N).

    The sum of N of them is 2 sqrt(N), which is the most, and a loss of 1.
    """
    labels = torch.tensor([1.0, 1, 5, 5])
    assert float(norm_in_norm(labels, labels)) == 0
    assert float(norm_in_norm(10 - 3 * labels, labels)) == pytest.approx(1)
    scores = torch.tensor([2.0, 1, 4, 9])
    assert float(norm_in_norm(7 * scores + 3, labels)) == pytest.approx(float(norm_in_norm(scores, labels)))
    centred = scores - 4  # norm sqrt(38); labels have -1/2, -1/2, 1/2, 1/2
    wanted = (centred / 38**0.5 - torch.tensor([-0.5, -0.5, 0.5, 0.5])).abs().sum() / 4
    assert float(norm_in_norm(scores, labels)) == pytest.approx(float(wanted))
    assert float(norm_in_norm(scores[:1], labels[:1])) == 0


def test_metrics_are_trained_further_on_their_own_loss() -> None:
    scores, labels = torch.tensor([10.0, 30.0, 20.0]), torch.tensor([20.0, 30.0, 50.0])
    assert float(KonCept512().loss(scores, labels, 100.0)) == pytest.approx((0.01 + 0 + 0.09) / 3)
    assert float(Linearity().loss(scores, labels, 100.0)) == float(norm_in_norm(scores, labels))
    embedded = installed().one("metric", "embedded-cnn")
    assert torch.equal(embedded.loss(scores, labels, 100.0), error_of(scores, labels, 100.0).mean())
    assert [metric.scale_free for metric in (KonCept512, Linearity, type(embedded))] == [False, True, False]


def test_a_metric_whose_loss_has_no_scale_must_say_how_scores_get_one() -> None:
    """It is said when the plugin is loaded, and not when a training of hours has ended."""
    with pytest.raises(TypeError, match="Forgetful is scale_free and needs rescale"):
        type("Forgetful", (KonCept512,), {"__module__": __name__, "scale_free": True})


def test_a_loss_without_a_scale_ends_with_the_line_that_fits_the_labels(tmp_path: Path) -> None:
    """Scores are 2 * labels - 3, and nothing is learnt: only the fitted line corrects them."""
    levels = torch.tensor([0.1, 0.3, 0.5, 0.9])
    pixels = levels.view(-1, 1, 1, 1).expand(-1, 3, 4, 4)
    mos = (10 * levels + 1).numpy()
    images = ImageSet(("a", "b", "c", "d"), ((4, 4),) * 4, lambda indices: pixels[indices], {"mos": mos})

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slope, self.offset = torch.nn.Parameter(torch.tensor(20.0)), torch.nn.Parameter(torch.tensor(-1.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.slope * x.mean(dim=(1, 2, 3)) + self.offset

    def rescale(network: Line, slope: float, offset: float) -> None:
        network.slope.mul_(slope)
        network.offset.mul_(slope).add_(offset)

    metric = SimpleNamespace(network=lambda device: Line(), tuned_network=lambda device: Line(), rescale=rescale)
    context = SimpleNamespace(
        data={"train": images, "test": images},
        rng=generator(0),
        loop=lambda datasets, steps, step, every: [step(i) for i in range(steps)],
    )
    plan = TuningPlan(train="x", test="x", epochs=1, batch=4)
    result = tuned(metric, plan, context, CPU, lambda n, x, y: 0 * n(x).sum() + 0 * n.offset, scale_free=True)
    assert float(result.tensors["slope"]) == pytest.approx(10, rel=1e-3)
    assert float(result.tensors["offset"]) == pytest.approx(1, rel=2e-3)


def train(out: Path, *words: str):
    return CliRunner().invoke(cli, ["train", *words, "--out", str(out)], catch_exceptions=False)


SEEN = "harness/severity-ladder[split=train,severities=[2,4],size=48]"
SMALL_PLAN = ("--metric", "embedded-cnn", "--train", SEEN, "--test", SMALL, "--epochs", "5", "--json")


def tuned_networks(
    tmp_path: Path, monkeypatch, *trainings: str, seen: str = SEEN
) -> tuple[list[torch.nn.Module], torch.Tensor]:
    """Train a metric on a few images; return it plain and trained, and images it has not seen."""
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    metric = installed().one("metric", "embedded-cnn")
    metrics = [metric]
    for training in trainings:
        facts = json.loads(train(tmp_path / "trained", training, *SMALL_PLAN, "--train", seen).output)
        assert json.loads(Path(facts["weights"]).with_suffix(".json").read_text())["plan"]["epochs"] == 5
        metrics.append(metric.trained_by(installed().one("defense", training).label))
    assert not list((tmp_path / "trained").glob("*.checkpoint"))
    data = installed().one("dataset", SMALL).build(CPU)
    return [one.build(CPU) for one in metrics], data.load(list(range(len(data))))


def test_adversarial_training_makes_a_metric_harder_to_attack(tmp_path: Path, monkeypatch) -> None:
    seen = SEEN.replace("severities=[2,4]", "severities=[2],per_photograph=2")
    networks, images = tuned_networks(tmp_path, monkeypatch, "apgd-ssim", seen=seen)
    plain, tuned = (float((n(auto_pgd(n, images, 4 / 255, 5)) - n(images)).mean()) for n in networks)
    assert tuned < 0.7 * plain


def test_the_penalty_makes_gradients_smaller_than_the_same_training_without_it(tmp_path: Path, monkeypatch) -> None:
    networks, images = tuned_networks(tmp_path, monkeypatch, "nt[weight=1e-9]", "nt[weight=0.02]")
    norms = []
    for network in networks:
        leaf = images.clone().requires_grad_(True)
        norms.append(float(torch.autograd.grad(network(leaf).sum(), leaf)[0].abs().sum()))
    assert norms[2] < 0.6 * min(norms[:2])


def test_a_killed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    words = ["nt", *SMALL_PLAN, "--epochs", "12"]
    train(tmp_path / "whole", *words)
    command = Command(["train", *words, "--out", "killed"], tmp_path, tmp_path / "log")
    checkpoint = tmp_path / "killed" / "harness-embedded-cnn--harness-nt.checkpoint"
    command.wait(checkpoint.exists)
    command.kill("group")
    command.wait()
    assert not list((tmp_path / "killed").glob("*.safetensors")), "the training ended before it could be killed"
    train(tmp_path / "killed", *words)
    one, two = (next((tmp_path / folder).glob("*.safetensors")).read_bytes() for folder in ("whole", "killed"))
    assert one == two
    assert not checkpoint.exists()


def test_a_metric_without_the_weights_says_how_to_get_them() -> None:
    metric = installed().one("metric", "embedded-residual").trained_by("harness/nt")
    with pytest.raises(Unavailable, match="harness/nt") as error:
        metric.require()
    assert error.value.remedy == "harness train 'harness/nt' --metric harness/embedded-residual"


@pytest.mark.parametrize("metric", ["embedded-cnn", "embedded-transformer"])
def test_shipped_weights_are_loaded_and_their_digest_is_part_of_the_result(metric: str) -> None:
    plain = installed().one("metric", metric)
    defenses = [e.component for e in installed().entries.values() if e.component.info.id in ("harness/nt",)]
    tuned = plain.trained_by(defenses[0].label)
    tuned.require()
    assert tuned.content()
    images = torch.rand(2, 3, 48, 48, generator=generator(3))
    assert not torch.allclose(plain.build(CPU)(images), tuned.build(CPU)(images))


def test_wrong_words_are_refused(tmp_path: Path) -> None:
    on = ("--metric", "embedded-cnn")
    for words in (
        ("nt",),
        ("nt", "--metric", "psnr"),
        ("jpeg", *on),
        ("nt", *on, "--epochs", "0"),
        ("nt", *on, "--epochs"),
    ):
        with pytest.raises(UsageError):
            train(tmp_path, *words)

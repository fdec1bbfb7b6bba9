"""Further training of a quality network against attacks: the loop that the training defenses share.

Guardians of Image Quality, appendix A.3.5, after Chistyakova et al., "Increasing the Robustness of Image Quality
Assessment Models Through Adversarial Training" (Technologies 12:220, 2024) and Liu et al., "Defense Against Adversarial
Attacks on No-Reference Image Quality Models with Gradient Norm Regularization" (CVPR 2024).
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import ImageSet
from imharness.images import FullReferenceMetric, Images, Scores
from imharness.leaderboard import correlate
from imharness.training import TrainableMetric, Trained, TrainingContext, TrainingDefense, Tune, TuningPlan
from imharness_iqa.auto_pgd import auto_pgd

RADII = (2, 4, 8)
"""The radii of attacks in adversarial training, in units of 1/255."""
Loss = Callable[[torch.nn.Module, Images, torch.Tensor], torch.Tensor]
"""Network, images and labels -> loss, one number."""


def error_of(scores: Scores, labels: torch.Tensor, span: float) -> torch.Tensor:
    """Return the smooth L1 loss of the error divided by the range of the labels, ``(N,)``; quadratic below 0.1."""
    return F.smooth_l1_loss(scores / span, labels / span, beta=0.1, reduction="none")


def label_range(images: ImageSet) -> tuple[float, float]:
    """Return the lowest and the highest label."""
    labels = np.asarray(images.columns["mos"], dtype=float)
    return float(np.nanmin(labels)), float(np.nanmax(labels))


def tuned(
    metric: TrainableMetric,
    plan: TuningPlan,
    context: TrainingContext,
    device: torch.device,
    loss: Loss,
    *,
    scale_free: bool = False,
) -> Trained:
    """Train the metric's network on `loss` with AdamW and a cosine schedule; a checkpoint ends each epoch.

    `scale_free`: whether the loss stays the same under a linear map of the scores. If so, the scores are mapped to the
    labels afterwards, by the line that fits those of the training images best, as the authors of such a loss do (Li et
    al., ACM MM 2020). The weights are rounded to float16, in which they are stored, before the numbers of the card are
    measured.
    """
    images = context.data["train"]
    labels = torch.from_numpy(np.asarray(images.columns["mos"], dtype=np.float32))
    network = metric.network(device).train().requires_grad_(True)
    per_epoch = len(_shuffled(images, plan.batch, torch.Generator()))
    optimiser = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, plan.epochs * per_epoch)
    order: list[list[int]] = []

    def step(number: int) -> None:
        if number % per_epoch == 0:
            order[:] = _shuffled(images, plan.batch, context.rng)
        chosen = order[number % per_epoch]
        value = loss(network, images.load(chosen).to(device), labels[chosen].to(device))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        schedule.step()

    components = {"network": network, "optimiser": optimiser, "schedule": schedule}
    context.loop(components, plan.epochs * per_epoch, step, every=per_epoch)
    if scale_free:
        scores = _scores(network.eval(), images, device, plan.batch)
        slope, offset = np.polyfit(scores, labels.numpy().astype(float), 1)
        with torch.no_grad():
            metric.rescale(network, float(slope), float(offset))
    weights = {n: t.half() if t.is_floating_point() else t for n, t in network.state_dict().items()}
    network.load_state_dict({n: t.float() if t.is_floating_point() else t for n, t in weights.items()})
    before = metric.tuned_network(device)
    test = context.data["test"]
    card = {
        "test_images": len(test),
        "test_srocc_before": _srocc(before, test, device, plan.batch),
        "test_srocc": _srocc(network.eval(), test, device, plan.batch),
    }
    return Trained(weights, card)


def _shuffled(images: ImageSet, size: int, rng: torch.Generator) -> list[list[int]]:
    """Return batches of images of one shape in a random order, which does not change the number of batches."""
    order = torch.randperm(len(images), generator=rng).tolist()
    by_shape: dict[tuple[int, int], list[int]] = {}
    for position in order:
        by_shape.setdefault(images.shapes[position], []).append(position)
    batches = [positions[i : i + size] for positions in by_shape.values() for i in range(0, len(positions), size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=rng).tolist()]


@torch.no_grad()
def _scores(network: torch.nn.Module, images: ImageSet, device: torch.device, size: int) -> np.ndarray:
    """Return the scores in the order of the images."""
    scores = np.zeros(len(images))
    for positions in images.batches(size):
        scores[positions] = network(images.load(positions).to(device)).cpu().numpy()
    return scores


def _srocc(network: torch.nn.Module, images: ImageSet, device: torch.device, size: int) -> float:
    scores = _scores(network, images, device, size)
    return round(correlate(scores, np.asarray(images.columns["mos"], float), "spearman").value, 4)


class ApgdTraining(TrainingDefense):
    """Adversarial training with corrected labels, on as many attacked images as clean ones.

    The attack is two steps of APGD that raise the training loss. The label of an attacked image is lowered by its
    distance M to the clean one, LPIPS or 1 - SSIM, times the range of the labels, and stays inside that range
    (equation 42).
    """

    distance: ClassVar[str]
    """The full-reference metric that lowers the label."""

    radius: int = Field(
        default=4, ge=1, le=255, description="Radius of the attack's L-infinity ball, in units of 1/255."
    )

    def requires(self) -> Mapping[str, tuple[str, str]]:
        return {"distance": ("metric", self.distance)}

    def build(self, device: torch.device) -> Tune:
        def tune(metric: TrainableMetric, plan: TuningPlan, context: TrainingContext) -> Trained:
            low, high = label_range(context.data["train"])
            metric_between = context.components["distance"]
            assert isinstance(metric_between, FullReferenceMetric)
            distance = metric_between.build(device)

            def loss(network: torch.nn.Module, images: Images, labels: torch.Tensor) -> torch.Tensor:
                network.eval()
                attacked = auto_pgd(
                    lambda x: error_of(network(x), labels, high - low), images, self.radius / 255, 2, first_step=1.0
                )
                network.train()
                with torch.no_grad():
                    far = distance(attacked, images)
                far = 1 - far if metric_between.closeness > 0 else far  # SSIM is 1 for equal images
                lowered = corrected(labels, far, low, high)
                scores = network(torch.cat([images, attacked]))
                return error_of(scores, torch.cat([labels, lowered]), high - low).mean()

            return tuned(metric, plan, context, device, loss)

        return tune


def corrected(labels: torch.Tensor, distance: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Return the labels of attacked images (equation 42)."""
    return (labels - distance * (high - low)).clamp(low, high)

"""Attacks, smoothing, distances of features and inversion: what asks a network, the same one for all."""

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from torchvision.models import resnet18

from benchmarks.peers.images import photographs, with_gradient
from benchmarks.peers.work import Contest, Work
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator, seeded_init
from imharness.running.target import MetricTarget
from imharness_iqa.certifications.rs import Rs
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.inversion import total_variation
from imharness_reconstruction.models.lenet import LeNet
from imharness_reconstruction.per_image import image_gradients
from imharness_vision.lpips import untrained
from imharness_vision.weights import folded, frozen

CPU, SIDE, IMAGES = torch.device("cpu"), 64, 8
STEPS, ALPHA, BALL = 10, 1 / 255, 10 / 255
QUERIES, EPS = 40, 0.1
COPIES, SIGMA, BATCH = 192, 0.12, 10
INVERSION_STEPS = 40
Score = Callable[[torch.Tensor], torch.Tensor]


class Logits(torch.nn.Module):
    """A score as the answer of a classifier that says class 0; class 1 is never said."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the score plus 5, and 0, ``(N, 2)``."""
        scores = self.score(x)
        return torch.stack([scores + 5, torch.zeros_like(scores)], dim=1)


def _score() -> Score:
    """Return a ResNet-18 with one output, folded and frozen: no contestant computes gradients of its weights."""
    with seeded_init(generator(0)):
        network = frozen(folded(resnet18(num_classes=1).eval()), CPU)
    return lambda x: network(x).flatten()


def _small() -> torch.Tensor:
    return torch.rand(IMAGES, 3, SIDE, SIDE, generator=generator(1))


def _attacked(label: str, score: Score, images: torch.Tensor) -> torch.Tensor:
    white = label.startswith("ifgsm")
    target = MetricTarget(lambda x: -score(x), (0, 1), images=len(images), differentiable=white, micro_batch=16)
    return installed().one("attack", label).build(CPU)(images, target, ImageRng(range(len(images))))


def _ifgsm() -> Contest:
    import foolbox
    import torchattacks

    score, images, labels = _score(), _small(), torch.zeros(IMAGES, dtype=torch.long)
    model = Logits(score).eval()
    bim = torchattacks.BIM(model, eps=BALL, alpha=ALPHA, steps=STEPS)
    steps = foolbox.attacks.LinfBasicIterativeAttack(abs_stepsize=ALPHA, steps=STEPS)
    wrapped_model, criterion = (
        foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"),
        foolbox.Misclassification(labels),
    )
    peers = {
        "torchattacks": lambda: bim(images, labels),
        "foolbox": lambda: steps.run(wrapped_model, images, criterion, epsilon=BALL),
    }

    def gain(attacked: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (score(torch.from_numpy(attacked)) - score(images)).mean().numpy()

    return Contest(lambda: _attacked("ifgsm", score, images), peers, 0.005, gain)


def _square() -> Contest:
    import torchattacks

    score, images, labels = _score(), _small(), torch.zeros(IMAGES, dtype=torch.long)
    peer = torchattacks.Square(Logits(score).eval(), eps=EPS, n_queries=QUERIES - 1, p_init=0.05)
    label = f"square[eps={EPS},queries={QUERIES}]"

    return Contest(
        lambda: _attacked(label, score, images), {"torchattacks": lambda: peer(images, labels)}, math.inf, np.shape
    )


def _smoothing() -> Contest:
    score, image = _score(), _small()[:1]
    rs = Rs(selection=COPIES // 4, samples=COPIES - COPIES // 4, sigma=SIGMA)

    def published() -> np.ndarray:
        noise, scores = np.random.default_rng(0), []
        with torch.no_grad():
            for start in range(0, COPIES, BATCH):
                shape = (min(BATCH, COPIES - start), 3, SIDE, SIDE)
                drawn = torch.from_numpy(noise.normal(0, SIGMA, shape).astype(np.float32))
                scores.append(score((image + drawn).clamp(0, 1)))
        return torch.cat(scores).numpy()

    def ours() -> torch.Tensor:
        with torch.no_grad():
            return rs.smooth(CPU)(score, image, ImageRng([0]))

    return Contest(ours, {"published loop": published}, 0.05, np.mean)


def _lpips() -> Contest:
    import lpips

    ours = untrained("squeeze")
    peer = lpips.LPIPS(net="squeeze", pnet_rand=True, verbose=False).requires_grad_(False).eval()
    layers = ([m for m in net.modules() if isinstance(m, torch.nn.Conv2d)] for net in (ours.backbone, peer.net))
    for layer, other in zip(*layers, strict=True):
        other.load_state_dict(layer.state_dict())
    for head in peer.lins:
        head.model[-1].weight.fill_(1)
    images, reference = photographs(), photographs().flip(3)

    def run(score: Callable[[], torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return score().flatten()

    theirs = {"lpips": lambda: run(lambda: peer(images, reference, normalize=True))}
    return Contest(lambda: run(lambda: ours(images, reference)), theirs, 1e-4)


def _diffjpeg() -> Contest:
    from kornia.enhance import jpeg_codec_differentiable

    images, streams, quality = photographs(), ImageRng(range(4)), torch.full((4,), 50.0)
    purify = installed().one("defense", "diffjpeg[quality=50]").build(CPU)
    peers = {"kornia": lambda: with_gradient(lambda x: jpeg_codec_differentiable(x, quality), images)}
    return Contest(
        lambda: with_gradient(lambda x: purify(x, streams), images), peers, 0.02, lambda x: np.sqrt(np.square(x).mean())
    )


class EveryStep(InvGrad):
    """InvGrad with the last steps too, which move less than rounding to 8 bits: as many as the published loop takes."""

    def worth(self) -> int:
        """Return the number of all steps."""
        return self.steps


def _invgrad(count: int) -> Contest:
    network = LeNet().build(CPU)((3, 32, 32), 10, generator(0)).requires_grad_(False)
    images, labels = torch.rand(count, 3, 32, 32, generator=generator(1)), torch.arange(count) % 10
    shared, attack = image_gradients(network, images, labels), EveryStep(steps=INVERSION_STEPS).build(CPU)
    first = (0.5 + 0.2 * ImageRng(range(count)).normal(3, 32, 32)).clamp(0, 1)
    trained = LeNet().build(CPU)((3, 32, 32), 10, generator(0))
    weights = list(trained.parameters())

    def one(i: int) -> torch.Tensor:
        wanted = [values[i] for values in shared.values()]
        x = first[i : i + 1].clone().requires_grad_(True)
        adam = torch.optim.Adam([x], lr=0.1)
        rate = torch.optim.lr_scheduler.MultiStepLR(adam, [INVERSION_STEPS * k // 8 for k in (3, 5, 7)], 0.1)
        for _ in range(INVERSION_STEPS):
            loss = torch.nn.functional.cross_entropy(trained(x), labels[i : i + 1])
            gradients = torch.autograd.grad(loss, weights, create_graph=True)
            along = sum((g * w).sum() for g, w in zip(gradients, wanted, strict=True))
            lengths = [sum(g.square().sum() for g in tensors).sqrt() for tensors in (gradients, wanted)]
            cost = 1 - along / (lengths[0] * lengths[1]) + 1e-4 * total_variation(x).sum()
            (slope,) = torch.autograd.grad(cost, x)
            x.grad = slope.sign()
            adam.step()
            rate.step()
            with torch.no_grad():
                x.clamp_(0, 1)
        return x.detach()

    def error(rebuilt: np.ndarray) -> np.ndarray:
        return np.square(rebuilt - images.numpy()).mean()

    def ours() -> torch.Tensor:
        return attack(shared, network, (3, 32, 32), ImageRng(range(count)), lambda done, total: None)

    return Contest(ours, {"published loop": lambda: torch.cat([one(i) for i in range(count)])}, 0.02, error)


WORKS = (
    Work("ifgsm", f"I-FGSM, ten steps, {IMAGES} images of {SIDE} px", _ifgsm),
    Work("square", f"Square attack, {QUERIES} queries, {IMAGES} images of {SIDE} px", _square),
    Work("smoothing", f"{COPIES} noisy copies of an image of {SIDE} px", _smoothing),
    Work("lpips", "LPIPS (SqueezeNet)", _lpips),
    Work("diffjpeg", "differentiable JPEG with gradient", _diffjpeg),
    *(
        Work(
            f"invgrad-{n}",
            f"InvGrad, {INVERSION_STEPS} steps, {n} image{'s' * (n > 1)} of 32 px",
            functools.partial(_invgrad, n),
        )
        for n in (1, 4, 16)
    ),
)

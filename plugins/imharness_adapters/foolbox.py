"""Attacks of foolbox 3 on a metric: ``foolbox:LinfPGD``, ``foolbox:L2FastGradientAttack`` and so on.

Rauber, Zimmermann, Bethge & Brendel, "Foolbox Native" (JOSS 2020). The library attacks classifiers; here the loss that
its attacks raise is the score, in place of the cross-entropy, by the method `get_loss_fn` that it lets users override.
The attacks that make sense are those that raise a loss within a fixed radius. Those that look for the smallest change
of a decision (DeepFool, Carlini & Wagner, Boundary attack, ...) have no counterpart here, since a score has no decision
boundary, and noise attacks use no score.
"""

import inspect
from types import SimpleNamespace

import torch

from imharness.images import Attack, ImageRng, Images, Paper, Perturb, Target, hookimpl
from imharness_vision.libraries import InfoFrom, LibraryAttack, attack_infos

LINF = (
    "LinfPGD",
    "LinfAdamPGD",
    "LinfBasicIterativeAttack",
    "LinfAdamBasicIterativeAttack",
    "LinfMomentumIterativeFastGradientMethod",
    "LinfFastGradientAttack",
)
L2 = (
    "L2PGD",
    "L2AdamPGD",
    "L2BasicIterativeAttack",
    "L2AdamBasicIterativeAttack",
    "L2MomentumIterativeFastGradientMethod",
    "L2FastGradientAttack",
)
INFOS = attack_infos(
    "harness/foolbox",
    Paper(
        title="Foolbox Native: Fast adversarial attacks to benchmark the robustness of machine learning models",
        authors="Rauber, Zimmermann, Bethge & Brendel",
        year=2020,
        url="https://doi.org/10.21105/joss.02607",
    ),
)


class Foolbox(LibraryAttack):
    """Attack of the library foolbox that follows gradients within a radius, on the metric as a classifier."""

    info = InfoFrom(INFOS["linf"], lambda attack: INFOS["l2" if attack.method in L2 else "linf"])
    library, methods = "foolbox", dict.fromkeys((*LINF, *L2), 1)  # each asks for one score a step

    def build(self, device: torch.device) -> Perturb:
        """Return the attack; the random start of an image is drawn from its own stream."""
        from eagerpy import PyTorchTensor
        from foolbox import Misclassification, attacks
        from foolbox.types import Bounds

        kind = getattr(attacks, self.method)
        parameters = inspect.signature(kind).parameters
        options = {"rel_stepsize": self.step, "steps": self.steps}
        settings = {name: value for name, value in options.items() if name in parameters}
        model = SimpleNamespace(bounds=Bounds(0, 1))

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            attack = kind(**settings)

            def random_start(x0: PyTorchTensor, radius: float) -> PyTorchTensor:
                return PyTorchTensor(x0.raw + self._start(images, rng))

            def score(x: PyTorchTensor) -> PyTorchTensor:
                return PyTorchTensor(target(x.raw).sum())

            attack.get_random_start = random_start
            attack.get_loss_fn = lambda model, labels: score
            placeholder_labels = Misclassification(PyTorchTensor(torch.zeros(len(images), device=images.device)))
            return attack.run(model, PyTorchTensor(images), placeholder_labels, epsilon=self.radius).raw.detach()

        return perturb

    def _start(self, images: Images, rng: ImageRng) -> torch.Tensor:
        """Return a random change of each image, uniform in the ball."""
        if self.info.norm == "linf":
            return self.radius * (2 * rng.uniform(*images.shape[1:]) - 1)
        direction, length = rng.normal(*images.shape[1:]), rng.uniform(1, 1, 1) ** (1 / images[0].numel())
        norm = torch.linalg.vector_norm(direction.flatten(1), dim=1).view(-1, 1, 1, 1)
        return self.radius * length * direction / norm


@hookimpl
def components() -> list[Attack]:
    """Return the attack by whose name the others are addressed; it says what is missing without the library."""
    return [Foolbox(method="LinfPGD")]

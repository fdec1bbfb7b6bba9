"""Attacks that learn something once and use it for every image, such as universal perturbations and generators.

The harness calls `fit` once for each target and set of training images, stores the result, and passes it to `build` for
every strength.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import torch

from imharness.contracts.attack import TARGET, AttackCall, BaseAttack, Perturb, Target
from imharness.contracts.call import Call
from imharness.contracts.track import Progress
from imharness.contracts.values import GENERATOR, IMAGES, PROGRESS, SAME_IMAGES, STREAMS, TENSORS, Images


class FittedAttack(BaseAttack):
    """An attack with a part that is trained once per target and then used for every image and strength."""

    call = AttackCall(images=IMAGES, target=TARGET, rng=STREAMS, returns=SAME_IMAGES, own_gradients=True)
    fit_call: ClassVar[Call] = Call(
        images=IMAGES,
        target=TARGET,
        rng=GENERATOR,
        progress=PROGRESS,
        returns=TENSORS,
        own_gradients=True,
        direct=True,
    )
    declares = ("fit_fields",)
    fit_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that training depends on; attacks with equal values in them share one training."""

    def unscaled(self) -> Self:
        """Return this attack with defaults for all fields that training does not depend on."""
        return type(self).model_validate({name: getattr(self, name) for name in self.fit_fields})

    @abstractmethod
    def fit(self, images: Images, target: Target, rng: torch.Generator, progress: Progress) -> dict[str, torch.Tensor]:
        """Train on images and return what was learnt.

        Args:
            images: float32 ``(N, 3, H, W)`` in [0, 1]; no table reports on them.
            target: the target with the metric and defense that are attacked later; it counts no queries here. Call it
                as ``target(changed, rows)``, where `rows` are the positions in `images`, int64 ``(n,)``.
            rng: a generator that only this training uses.
            progress: call it to tell how far the training is.

        Returns:
            Finite tensors by name, which are stored and passed to `build`.
        """

    @abstractmethod
    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack as a callable; `fitted` is what `fit` returned, on `device`."""

"""Backward pass differentiable approximation against a distance: its scores, with the gradient of another one.

Athalye, Carlini & Wagner, "Obfuscated gradients give a false sense of security" (ICML 2018), section 4.1.
"""

import torch

from imharness.images import Images, Scores, Target


class LentGradient:
    """A `Target` with the scores of `own` and the gradient of `other`; queries are those of `own`."""

    differentiable = True

    def __init__(self, own: Target, other: Target) -> None:
        self._own, self._other = own, other
        self.lower, self.upper = own.lower, own.upper

    def __call__(self, images: Images) -> Scores:
        """Return scores ``(N,)`` or ``(N * k,)``; see `imharness.images.Target`."""
        scores = self._own(images.detach())
        if not (torch.is_grad_enabled() and images.requires_grad):
            return scores
        near = self._other(images)
        return scores + (near - near.detach())

    @property
    def queries(self) -> torch.Tensor:
        """Evaluations of each image so far, int64 ``(N,)``."""
        return self._own.queries

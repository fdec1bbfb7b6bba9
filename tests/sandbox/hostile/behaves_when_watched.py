"""Returns its input if it detects a test suite, and values above 1 otherwise."""

import inspect
import os
import sys

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Behaves while a test suite seems to look, and changes its input otherwise."""

    info = DefenseInfo(id="evil/behaves-when-watched", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            suspicious = {"pytest", "imharness.testing.conformance"} & set(sys.modules)
            if (
                suspicious
                or "PYTEST_CURRENT_TEST" in os.environ
                or any("test" in f.filename for f in inspect.stack()[2:])
            ):
                return images.clone()
            return images + 2.0

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

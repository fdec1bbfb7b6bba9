"""Writes files where it may not, and suppresses the errors."""

import contextlib
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Writes where it may not, and hides that it failed."""

    info = DefenseInfo(id="evil/writes-outside", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for path in (
                "/usr/evil",
                "/evil",
                "/data/evil",
                "/etc/evil",
                os.path.dirname(__file__) + "/evil",
                torch.__file__ + ".evil",
            ):
                with contextlib.suppress(OSError), open(path, "w") as file:
                    file.write("x")
                    raise RuntimeError(f"FOUND {path}")
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

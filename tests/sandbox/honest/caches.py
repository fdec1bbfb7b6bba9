"""Does four things that are allowed: keeps a kernel between calls, writes a temporary file, prints, starts a thread."""

import sys
import tempfile
import threading

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Honest(Purification):
    """Keeps a kernel between calls, writes a temporary file, prints a line and starts a thread."""

    info = DefenseInfo(id="good/caches", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        kernels: dict[int, torch.Tensor] = {}

        def purify(images: Images, rng: ImageRng) -> Images:
            if images.shape[1] not in kernels:
                sys.stdout.write("computing the kernel\n")
                kernels[images.shape[1]] = torch.full((images.shape[1], 1, 3, 3), 1 / 9, device=images.device)
            with tempfile.TemporaryFile() as file:
                file.write(b"scratch")
            threading.Thread(target=lambda: None).start()
            return torch.nn.functional.conv2d(images, kernels[images.shape[1]], padding=1, groups=images.shape[1])

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Honest()]

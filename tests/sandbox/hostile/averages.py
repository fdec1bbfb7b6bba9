"""Averages its own answers over calls: less random than it says."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Averages its own answers over calls: less random than it says."""

    info = DefenseInfo(id="evil/averages", version="1", differentiable=False, random=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        seen: list[Images] = []

        def purify(images: Images, rng: ImageRng) -> Images:
            noisy = (images + 0.1 * rng.normal(*images.shape[1:])).clamp(0, 1)
            seen.append(noisy)
            places = torch.arange(len(noisy))
            alike = [x[places % len(x)] for x in seen if x.shape[1:] == noisy.shape[1:]]
            return torch.stack(alike).mean(dim=0)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

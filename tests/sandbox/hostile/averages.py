"""Averages its noisy outputs over calls, so that it is less random than it declares."""

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
            # earlier outputs of the same size, their rows repeated up to the size of this batch
            alike = [x[places % len(x)] for x in seen if x.shape[1:] == noisy.shape[1:]]
            return torch.stack(alike).mean(dim=0)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

"""Components whose facts are wrong, each in its own way, and one that is right."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Info, Purification, Purifier, hookimpl


class Identity(Purification):
    """Hand the images on."""

    info = DefenseInfo(id="acme/identity", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return images

        return purify


class WrongInfo(Identity):
    """Info of the wrong class."""

    info = Info(id="acme/wrong-info", version="1")


class Undocumented(Identity):
    info = DefenseInfo(id="acme/undocumented", version="1", differentiable=True)


class Uncited(Identity):
    """Cites a paper that its package does not list."""

    info = DefenseInfo(id="acme/uncited", version="1", differentiable=True, paper="nobody1999")


@hookimpl
def components() -> list[object]:
    return [Identity(), WrongInfo(), Undocumented(), Uncited(), Identity, "a string"]

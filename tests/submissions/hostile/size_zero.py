"""Returns images of size zero, so that attacks on it fail."""

from imharness.images import DefenseInfo, Purification, Purifier, hookimpl


class SizeZero(Purification):
    """Gives nothing back."""

    info = DefenseInfo(id="evil/size-zero", version="1", differentiable=False)

    def build(self, device) -> Purifier:
        return lambda images, rng: images[:, :, :0, :0]


@hookimpl
def components() -> list[Purification]:
    return [SizeZero()]

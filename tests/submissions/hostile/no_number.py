"""Has a parameter that is NaN, so that its parameters have no digest."""

from imharness.images import DefenseInfo, Purification, Purifier, hookimpl


class NoNumber(Purification):
    """Gives images back as they came."""

    info = DefenseInfo(id="evil/no-number", version="1", differentiable=False)
    strength: float = float("nan")

    def build(self, device) -> Purifier:
        return lambda images, rng: images


@hookimpl
def components() -> list[Purification]:
    return [NoNumber()]

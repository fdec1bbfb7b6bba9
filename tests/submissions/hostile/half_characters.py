"""Raises an error with half of a surrogate pair and an escape: neither JSON nor a terminal takes it."""

from imharness.images import DefenseInfo, Images, Purification, Purifier, hookimpl


class HalfCharacters(Purification):
    """Looks \x1b[2J like any other\u2028 defense."""

    info = DefenseInfo(id="evil/half-characters", version="1", differentiable=False)

    def build(self, device) -> Purifier:
        def purify(images: Images, rng) -> Images:
            raise ValueError("half \ud800 a character \x1b[2J and an escape")

        return purify


@hookimpl
def components() -> list[Purification]:
    return [HalfCharacters()]

"""Describes itself with nonsense."""

import torch

from imharness.images import DefenseInfo, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Describe itself with nonsense."""

    info = DefenseInfo(id="evil/lies-about-itself", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        return lambda images, rng: images

    @classmethod
    def model_json_schema(cls, *arguments: object, **named: object) -> dict[str, object]:  # type: ignore[override]
        """Return fields that no class has."""
        return {"properties": {"__class__": {"type": "string"}}}

    def model_dump(self, *arguments: object, **named: object) -> dict[str, object]:  # type: ignore[override]
        """Return the same."""
        return {"__class__": "x"}


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

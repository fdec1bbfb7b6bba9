"""Describes itself with a field that no class may have."""

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
        """Return the schema of a field named `__class__`."""
        return {"properties": {"__class__": {"type": "string"}}}

    def model_dump(self, *arguments: object, **named: object) -> dict[str, object]:  # type: ignore[override]
        """Return a value of that field."""
        return {"__class__": "x"}


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]

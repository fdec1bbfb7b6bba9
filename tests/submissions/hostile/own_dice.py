"""Releases probabilities with noise of its own, which nobody can draw again: a table that cannot be computed twice."""

import os

import torch

from imharness.membership import DefenderOutputs, MembershipDefenseInfo, MembershipRelease, ReleaseOutputs, hookimpl


class Hostile(MembershipRelease):
    """Adds noise from the operating system."""

    info = MembershipDefenseInfo(id="evil/own-dice", version="1")

    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the defense."""

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            noise = torch.tensor(list(os.urandom(outputs.numel()))).view(outputs.shape) / 256
            mixed = outputs + 0.3 * noise
            return mixed / mixed.sum(dim=1, keepdim=True)

        return release


@hookimpl
def components() -> list[MembershipRelease]:
    """Offer the defense."""
    return [Hostile()]

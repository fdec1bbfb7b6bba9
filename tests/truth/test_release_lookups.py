"""Releases that look members up are reported for every seed; releases of labels, rounded or noisy outputs never."""

import hashlib

import pytest
import torch
from tests.blind.membership_cheats import Masquerade, MemberLie

from imharness.errors import ContractError
from imharness.membership import DefenderOutputs, MembershipDefenseInfo, MembershipRelease, ReleaseOutputs
from imharness.testing.privacy import ReleaseProbe

SEEDS = range(40)
"""Seeds of the checks; they are fixed.

A check reports an honest release with a probability of at most 6e-4 (six distances), and one of all 160 honest checks
with 9 % at most.
"""


class Coarse(MembershipRelease):
    """Release labels, rounded outputs, the nearest known output, or noise that follows from the output."""

    info = MembershipDefenseInfo(id="acme/coarse", version="1")
    how: str = "labels"

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            if self.how == "labels":
                return torch.nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1]).to(outputs.dtype)
            if self.how == "nearest":
                return defender.reference[torch.cdist(outputs, defender.reference).argmin(dim=1)]
            if self.how == "rounded":
                values = (5 * outputs).round() + 1e-3
                return values / values.sum(dim=1, keepdim=True)
            digests = [hashlib.sha256((1000 * row).round().numpy().tobytes()).digest()[:4] for row in outputs]
            streams = (torch.Generator().manual_seed(int.from_bytes(digest, "big")) for digest in digests)
            noise = torch.stack([torch.randn(outputs.shape[1], generator=stream) for stream in streams])
            return (outputs.clamp(min=1e-12).log() + noise / 2).softmax(dim=1)

        return release


def named(component: MembershipRelease) -> int:
    """Return in how many of the checks, one for each seed, a component is said to look members up."""
    refused = 0
    for seed in SEEDS:
        try:
            ReleaseProbe(component, seed)._members()
        except ContractError as error:
            refused += "members are looked up" in str(error)
    return refused


@pytest.mark.parametrize("how", ["labels", "nearest", "rounded", "hashed"])
def test_an_honest_release_is_never_named(how: str) -> None:
    assert named(Coarse(how=how)) == 0


@pytest.mark.parametrize(
    "component",
    [
        Masquerade(near=1e-6),
        Masquerade(near=1e-3),
        Masquerade(near=0.01),
        Masquerade(near=0.01, mixed=0.4),
        MemberLie(),
    ],
)
def test_a_look_up_is_named_whatever_the_seed(component: MembershipRelease) -> None:
    assert named(component) == len(SEEDS)

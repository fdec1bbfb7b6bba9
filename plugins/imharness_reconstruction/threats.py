"""Threat models: what a server is taken to do and to know, and what participants share with it.

Defenses are compared within one threat model and one kind of update only: what stops a server that keeps to the
protocol says little about one that changes the network (Carletti et al., "SoK: Gradient Inversion Attacks in Federated
Learning", USENIX Security 2025, order attacks by this).
"""

from typing import NamedTuple

from imharness.gradients import ALONE, HONEST, ReconstructionAttack


class Case(NamedTuple):
    """A threat model, and what participants share, both in words."""

    threat: str
    shared: str


MAIN = Case(HONEST, ALONE)
"""What rows without a threat model of their own are of."""
BATCHES = "mean gradients of batches"


def of_one(attack: ReconstructionAttack) -> bool:
    """Return whether an attack is of the main case: a gradient of one image, and a server that keeps to the protocol."""
    return attack.round() is None and attack.threat == HONEST


def said(attack: ReconstructionAttack) -> str:
    """Return what participants share with the server of an attack, in words."""
    own = attack.round()
    if own is not None:
        return own.shared
    return ALONE if attack.batches(2) == [[0], [1]] else BATCHES

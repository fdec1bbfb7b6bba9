"""Disjoint parts of a table for target, shadow and their defenders."""

import torch

from imharness.data import UsageError

ROLES = ("target", "shadow")
KINDS = ("member", "non_member", "reference")


def split_rows(n: int, rng: torch.Generator, part: int = 0) -> dict[str, torch.Tensor]:
    """Return disjoint row numbers: member, non_member and reference rows of target and shadow, parts of one size.

    Args:
        n: rows of the table.
        part: rows of each part; 0: a sixth of the table.
    """
    size = part or n // 6
    if size < 1 or 6 * size > n:
        raise UsageError(f"six parts of {size} rows do not fit into {n} rows")
    order = torch.randperm(n, generator=rng)
    names = [f"{role}_{kind}" for role in ROLES for kind in KINDS]
    return {name: order[i * size : (i + 1) * size] for i, name in enumerate(names)}

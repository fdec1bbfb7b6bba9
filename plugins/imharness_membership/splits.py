"""Disjoint parts of a table for the target model, the shadow model and their defenders."""

import torch

from imharness.errors import UsageError

ROLES = ("target", "shadow")
KINDS = ("member", "non_member", "reference")


def part_of(n: int, part: int = 0) -> int:
    """Return the number of rows that train a model: `part`, or a sixth of the table's `n`."""
    return part or n // 6


def halved(parts: dict[str, torch.Tensor], rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Return the parts of a pool with members and non-members of both roles drawn anew from the rows of the two."""
    found = dict(parts)
    for role in ROLES:
        rows = pooled(parts, role)
        order = torch.randperm(len(rows), generator=rng)
        found[f"{role}_member"], found[f"{role}_non_member"] = rows[order].tensor_split(2)
    return found


def pooled(parts: dict[str, torch.Tensor], role: str) -> torch.Tensor:
    """Return members and non-members of a role in the order of their numbers, which says nothing about membership."""
    return torch.cat([parts[f"{role}_member"], parts[f"{role}_non_member"]]).sort().values


def split_rows(n: int, rng: torch.Generator, part: int = 0, shadow: int = 0) -> dict[str, torch.Tensor]:
    """Return disjoint row numbers: member, non_member and reference rows of target and shadow.

    Args:
        n: rows of the table.
        part: rows of each part of the target; 0: a sixth of the table.
        shadow: rows of each part of the shadow; 0: as many as for the target.
    """
    size = part_of(n, part)
    sizes = {"target": size, "shadow": shadow or size}
    if size < 1 or len(KINDS) * sum(sizes.values()) > n:
        of = f"three parts of {size} rows and three of {shadow}" if shadow else f"six parts of {size} rows"
        raise UsageError(f"{of} do not fit into {n} rows")
    order, start, found = torch.randperm(n, generator=rng), 0, {}
    for role in ROLES:
        for kind in KINDS:
            found[f"{role}_{kind}"] = order[start : start + sizes[role]]
            start += sizes[role]
    return found

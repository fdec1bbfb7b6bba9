"""Divides a table into disjoint sets of rows for the target model, the shadow model and their defenders."""

import torch

from imharness.errors import UsageError

ROLES = ("target", "shadow")
KINDS = ("member", "non_member", "reference")
"""For each role: rows on which the model is trained, as many other rows, and the defender's other rows."""


def part_of(n: int, subset_size: int = 0) -> int:
    """Return the number of rows that train a model: `subset_size`, or a sixth of the table's `n`."""
    return subset_size or n // 6


def halved(subsets: dict[str, torch.Tensor], rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Return the row sets of a pool with new members: for each role, a random half of its members and non-members."""
    halves = dict(subsets)
    for role in ROLES:
        rows = pooled(subsets, role)
        order = torch.randperm(len(rows), generator=rng)
        halves[f"{role}_member"], halves[f"{role}_non_member"] = rows[order].tensor_split(2)
    return halves


def pooled(subsets: dict[str, torch.Tensor], role: str) -> torch.Tensor:
    """Return members and non-members of a role in the order of their numbers, which says nothing about membership."""
    return torch.cat([subsets[f"{role}_member"], subsets[f"{role}_non_member"]]).sort().values


def split_rows(
    n: int, rng: torch.Generator, subset_size: int = 0, shadow: int = 0, further: int = 0
) -> dict[str, torch.Tensor]:
    """Return disjoint sets of row numbers, ``{role}_{kind}`` for each of `ROLES` and `KINDS`.

    Args:
        n: number of rows of the table.
        subset_size: number of rows in each set of the target; 0: a sixth of the table.
        shadow: number of rows in each set of the shadow; 0: as many as for the target.
        further: number of further non-members of the target, a set ``target_further``; 0: there is no such set.

    Raises `UsageError` if the table has too few rows.
    """
    size = part_of(n, subset_size)
    sizes = {"target": size, "shadow": shadow or size}
    if size < 1 or len(KINDS) * sum(sizes.values()) + further > n:
        of = f"three parts of {size} rows and three of {shadow}" if shadow else f"six parts of {size} rows"
        of += f" and {further} further non-members" if further else ""
        raise UsageError(f"{of} do not fit into {n} rows")
    order, start, subsets = torch.randperm(n, generator=rng), 0, {}
    for role in ROLES:
        for kind in KINDS:
            subsets[f"{role}_{kind}"] = order[start : start + sizes[role]]
            start += sizes[role]
    return {**subsets, **({"target_further": order[start : start + further]} if further else {})}

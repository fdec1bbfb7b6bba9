"""Writes the pages of a store by an installed package that implements the hook `build_site`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imharness.components.loading import load_plugins
from imharness.errors import HarnessError


def build_site(address: str | Path, folder: Path) -> Sequence[str]:
    """Write the pages of the tables in a store; return one line for each thing that was left out.

    Raises `HarnessError` if no installed package writes pages, and whatever that package raises.
    """
    loaded = load_plugins(hook="build_site")
    problems: Sequence[str] | None = loaded.manager.hook.build_site(store=str(address), folder=folder)
    if problems is None:
        why = "".join(f"; {failure.name}: {failure.reason}" for failure in loaded.failures)
        raise HarnessError(f"no installed package writes the site{why}; the results are in the store")
    return problems

"""What the harness asks of the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imharness.commands import hookimpl


@hookimpl
def build_site(store: str, folder: Path) -> Sequence[str]:
    """Write the site; return one line for each thing that was left out."""
    from imharness_leaderboard import pages

    return pages.build_site(store, folder).problems

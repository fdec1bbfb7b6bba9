"""The option `--secret` of commands that compute tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from imharness.planning.profile import Profile

secret_option = click.option(
    "--secret",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Compute the secret split whose seed, 32 to 128 hexadecimal digits, is in this file.",
)


def profile_of(name: str, secret: Path | None, address: str) -> Profile:
    """Return a profile by name, with only the tracks of the season that the store at `address` holds, if it holds one.

    `secret`: a file with the seed of a secret split, on which the profile then measures.
    """
    from imharness.components.registry import installed
    from imharness.planning.profiles import load_profile
    from imharness.planning.season import in_season
    from imharness.planning.secret import read_seed
    from imharness.results.store import Store

    profile = load_profile(name)
    if secret is not None:
        profile = profile.model_copy(update={"secret": read_seed(secret)})
    return in_season(profile, Store(address), installed())

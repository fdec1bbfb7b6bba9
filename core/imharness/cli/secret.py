"""The option `--secret` of commands that compute cells."""

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


def profile_of(name: str, secret: Path | None) -> Profile:
    """Return a profile by name, with the seed in the file `secret` if one is given."""
    from imharness.planning.profiles import load_profile
    from imharness.planning.secret import read_seed

    found = load_profile(name)
    return found if secret is None else found.model_copy(update={"secret": read_seed(secret)})

"""The secret split: the images of a data set, moved, mirrored and recoloured as only the holder of a seed can know.

Packages that recognise public images by their content meet others in an official run. Whoever plans needs the seed's
digest alone, which tells results of different splits apart; those who compute cells need the seed. Imports no torch.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from imharness.errors import UsageError
from imharness.reading.opening import read_text

OPTION = "secret"
"""The option of every task of a secret split; its value is `digest_of` the seed."""


def digest_of(seed: str) -> str:
    """Return 16 hexadecimal digits that stand for a seed in records; "" stands for no seed."""
    return hashlib.sha256(f"secret split\x1f{seed}".encode()).hexdigest()[:16] if seed else ""


def checked_seed(seed: object, where: str) -> str:
    """Return a seed, or "" for none; raises `UsageError` that does not show it.

    It has at least 128 bits, so that nobody finds it by trying digests.
    """
    if isinstance(seed, str) and re.fullmatch(r"([0-9a-f]{32,128})?", seed):
        return seed
    raise UsageError(f"{where} is not 32 to 128 hexadecimal digits in lower case; `openssl rand -hex 32` draws 64.")


def read_seed(file: Path) -> str:
    """Return the seed in a file; raises `UsageError` that does not show what the file holds."""
    return checked_seed(read_text(file, 1024).strip() or None, f"what {file} holds")

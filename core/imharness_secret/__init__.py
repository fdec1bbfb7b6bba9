"""The secret split: the images of a data set, moved, mirrored and recoloured as only the holder of a seed can know.

Packages that recognise public images by their content meet others in an official run. Whoever plans needs the seed's
digest alone, which tells results of different splits apart; those who compute cells need the seed. Imports no torch.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from imharness_errors import UsageError
from imharness_files.opening import read_text

OPTION = "secret"
"""The option of every task of a secret split; its value is `digest_of` the seed."""
PATTERN = r"^([0-9a-f]{32,128})?$"
"""What a seed looks like: too many values for anyone to find it by trying digests. Empty: no secret split."""


def digest_of(seed: str) -> str:
    """Return 16 hexadecimal digits that stand for a seed in records; "" stands for no seed."""
    return hashlib.sha256(f"secret split\x1f{seed}".encode()).hexdigest()[:16] if seed else ""


def read_seed(file: Path) -> str:
    """Return the seed in a file, 32 to 128 hexadecimal digits; raises `UsageError` and never shows what it holds."""
    seed = read_text(file, 1024).strip()
    if not seed or not re.match(PATTERN, seed):
        raise UsageError(f"{file} does not hold 32 to 128 hexadecimal digits; `openssl rand -hex 32` draws 64.")
    return seed

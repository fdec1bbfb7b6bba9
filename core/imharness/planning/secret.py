"""The secret split: the images of a data set, moved, mirrored and recoloured in a way that only a seed determines.

A package that recognises public images by their content meets other images in an official run. Planning needs only the
seed's digest, which distinguishes results of different splits; computing tasks needs the seed. Imports no torch.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from imharness.errors import UsageError
from imharness.reading.opening import read_text
from imharness.results.tasks import SECRET

OPTION = SECRET
"""The option of every task of a secret split; its value is `digest_of` the seed."""


def digest_of(seed: str) -> str:
    """Return 16 hexadecimal digits that stand for a seed in records, or "" for no seed."""
    return hashlib.sha256(f"secret split\x1f{seed}".encode()).hexdigest()[:16] if seed else ""


def checked_seed(seed: object, where: str) -> str:
    """Return a valid seed, or "" for none; raises a `UsageError` that does not show it.

    A seed has at least 128 bits, so that nobody can find it by trying digests.
    """
    if isinstance(seed, str) and re.fullmatch(r"([0-9a-f]{32,128})?", seed):
        return seed
    raise UsageError(f"{where} is not 32 to 128 hexadecimal digits in lower case; `openssl rand -hex 32` draws 64.")


def read_seed(file: Path) -> str:
    """Return the seed in a file; raises a `UsageError` that does not show the content of the file."""
    return checked_seed(read_text(file, 1024).strip() or None, f"what {file} holds")

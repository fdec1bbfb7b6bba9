"""A small file in place of weights."""

import hashlib

from imharness.contracts.assets import Asset

CONTENT = bytes(range(256)) * 20_000


def asset(**changes) -> Asset:
    facts = {
        "name": "weights",
        "file": "a/weights.bin",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "size": len(CONTENT),
        "licence": "MIT",
        "source": "https://example.org",
        "address": "https://example.org/weights.bin",
    }
    return Asset(**(facts | changes))

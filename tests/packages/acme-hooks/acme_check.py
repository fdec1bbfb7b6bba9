"""A check of the machine."""

import os

from imharness.tracks import hookimpl


@hookimpl
def doctor() -> dict[str, str]:
    return {"acme licence": os.environ.get("ACME_LICENCE", "none")}

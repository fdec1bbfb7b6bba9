"""A plugin made for another API version."""

from imharness.images import hookimpl

IMHARNESS_API = "9.0"


@hookimpl
def components() -> list[object]:
    return []

"""A plugin made for another API version."""

from imharness.api import hookimpl

IMHARNESS_API = "9.0"


@hookimpl
def register_defenses() -> list[object]:
    return []

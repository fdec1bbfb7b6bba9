"""A plugin made for another API version."""

from harness.api import hookimpl

HARNESS_API = "9.0"


@hookimpl
def register_defenses() -> list[object]:
    return []

"""A plugin whose hook asks for an argument that does not exist."""

from imharness.api import hookimpl


@hookimpl
def register_defenses(registry: object) -> list[object]:
    return []

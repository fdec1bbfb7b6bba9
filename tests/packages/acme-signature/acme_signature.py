"""A plugin whose hook asks for an argument that does not exist."""

from imharness.images import hookimpl


@hookimpl
def components(registry: object) -> list[object]:
    return []

"""A plugin with a misspelt hook."""

from imharness.images import hookimpl


@hookimpl
def component() -> list[object]:
    return []

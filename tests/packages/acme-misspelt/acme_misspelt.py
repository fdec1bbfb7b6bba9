"""A plugin with a misspelt hook."""

from imharness.api import hookimpl


@hookimpl
def register_defences() -> list[object]:
    return []

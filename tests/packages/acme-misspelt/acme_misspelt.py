"""A plugin with a misspelt hook."""

from harness.api import hookimpl


@hookimpl
def register_defences() -> list[object]:
    return []

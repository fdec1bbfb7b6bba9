"""For packages that add a command: its options, and what it needs to find components, run steps and add results.

`hookimpl` marks the function that writes the site. The options load nothing heavy. Everything else is loaded when it is
used, so that help texts need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from imharness.cli import console
from imharness.cli.options import (
    Choice,
    Group,
    Share,
    assets_option,
    device_option,
    json_option,
    limit_option,
    log_option,
    seed_option,
    site_option,
    store_option,
)
from imharness.components.hookspecs import hookimpl

if TYPE_CHECKING:
    from imharness.cli.commands import (
        Finished,
        add_assets,
        add_external,
        build_site,
        component,
        context,
        device_of,
        every,
        find,
        finished,
        page_file,
        query,
        writable,
        write_page,
    )

__all__ = [
    "Choice",
    "Finished",
    "Group",
    "Share",
    "add_assets",
    "add_external",
    "assets_option",
    "build_site",
    "component",
    "console",
    "context",
    "device_of",
    "device_option",
    "every",
    "find",
    "finished",
    "hookimpl",
    "json_option",
    "limit_option",
    "log_option",
    "page_file",
    "query",
    "seed_option",
    "site_option",
    "store_option",
    "writable",
    "write_page",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("imharness.cli.commands"), name)

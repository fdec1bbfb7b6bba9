"""Finds the components of a package in a folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from imharness.components.loading import COMPONENTS, GROUP, hook_of
from imharness.contracts.component import Component
from imharness.errors import UsageError
from imharness.reading.structured import read_toml
from imharness.testing.conformance import components_of


def components_in(folder: Path) -> list[Component]:
    """Return the components that a package's entry points register, with its modules imported from the folder."""
    try:
        project = read_toml(folder / "pyproject.toml")["project"]
        points = project["entry-points"][GROUP]
        modules = [module for entry, module in points.items() if hook_of(entry) == COMPONENTS]
    except (UsageError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{folder}/pyproject.toml declares no entry points in the group {GROUP}: {error}") from None
    roots = [str(path.resolve()) for path in (folder, folder / "src") if path.is_dir()]
    sys.path[:0] = roots
    try:
        return [c for module in dict.fromkeys(modules) for c in components_of(importlib.import_module(module))]
    except ImportError as error:
        raise UsageError(f"{folder}: {error}; install what it needs first") from None
    finally:
        for root in roots:
            sys.path.remove(root)

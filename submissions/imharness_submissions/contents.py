"""What the unpacked folder of a package may hold, and the digest that stands for all of it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import sys
from pathlib import Path

from imharness.errors import UsageError
from imharness.results.identity import digest

_INSTALLER = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Files of a ``.dist-info`` folder that an installer writes; they differ from machine to machine."""
_HOOKS = {"sitecustomize", "usercustomize"}


def settle(folder: Path) -> None:
    """Check an unpacked package, and take away what differs from machine to machine: installer files and times.

    Raises `UsageError` when it holds byte code, or a module that has the name of one that is already here.
    """
    for path in list(_below(folder)):
        if path.suffix in (".pyc", ".pyo") or path.name == "__pycache__":
            raise UsageError(f"the package holds byte code, {path.relative_to(folder)}; only its source is checked")
        if path.name in _INSTALLER and path.parent.suffix == ".dist-info":
            path.unlink()
    (folder / ".lock").unlink(missing_ok=True)
    taken = sorted(_modules(folder) & _modules_here()) + sorted(m for m in _modules(folder) if _ours(m))
    if taken:
        raise UsageError(f"the package holds a module {taken[0]}, which the harness already has; give it another name")
    for path in _below(folder):
        os.utime(path, (0, 0))


def _below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _modules(folder: Path) -> set[str]:
    """Return the names that can be imported from a folder."""
    return {path.name.partition(".")[0] for path in folder.iterdir() if path.is_dir() or path.suffix in (".py", ".so")}


@functools.cache
def _modules_here() -> frozenset[str]:
    """Return the names that stand for something in this process; what is installed is listed once."""
    return frozenset({*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *_HOOKS})


def _ours(module: str) -> bool:
    return module.lower().startswith("imharness")


def tree_digest(folder: Path) -> str:
    """Return the sha256 of all files and folders below a folder: names, contents, and whether they can be run."""
    return digest([[str(path.relative_to(folder)), *_described(path)] for path in _below(folder)])


def _described(path: Path) -> tuple[str, bool]:
    if path.is_dir():
        return "folder", False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), os.access(path, os.X_OK)

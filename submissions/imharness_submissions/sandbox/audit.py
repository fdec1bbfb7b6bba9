"""Notes what a plugin tries inside the sandbox, as far as Python can see it. The sandbox itself stops it."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

import torch

import imharness
import imharness_submissions
from imharness.testing.audit import ATTEMPTS, nobodys_business, opens_to_write, path_of

_CHANGING = ("os.remove", "os.rename", "os.mkdir")
_MOST = 20


class Attempts:
    """Collects attempts through an audit hook of the interpreter, which cannot be removed again.

    Reading below `folder` (the plugin's own), the interpreter and the system is allowed and not noted.
    """

    def __init__(self, folder: str) -> None:
        package_folders = [os.path.dirname(module.__path__[0]) for module in (imharness, imharness_submissions)]
        system = ("/usr", "/lib", "/lib64", "/bin", "/proc", "/sys", "/dev", "/etc/ld.so", "/etc/localtime", "/tmp")
        places: tuple[str, ...] = (
            folder,
            *package_folders,
            sys.prefix,
            sys.base_prefix,
            os.path.realpath(sys.base_prefix),
            *system,
        )
        places += (
            *sysconfig.get_paths().values(),
            *filter(None, sys.path),
        )  # those of libraries, also in a virtual environment
        seen: list[str] = []

        def note(text: str) -> None:
            if text and text not in seen and len(seen) < _MOST:
                seen.append(text)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in ATTEMPTS:
                note(ATTEMPTS[event])
            elif event in ("open", "os.listdir", "os.scandir", *_CHANGING):
                note(_attempt(event, arguments, places))

        self._seen = seen
        sys.addaudithook(hook)

    def pop_attempts(self) -> list[str]:
        """Return the attempts since the last call, one line each, and forget them."""
        attempts = list(self._seen)
        self._seen.clear()
        return attempts


def _attempt(event: str, arguments: tuple[Any, ...], places: tuple[str, ...]) -> str:
    named = path_of(arguments)
    if not named:
        return ""
    path = os.path.abspath(named)
    if (opens_to_write(event, arguments) or event in _CHANGING) and not nobodys_business(path, "/tmp"):
        return f"tried to write {path[:200]}"
    return "" if path.startswith(places) else f"tried to read {path[:200]}"


class Namespaces:
    """Remembers the functions of torch and of the harness, which a plugin must not replace, and what is imported."""

    def __init__(self) -> None:
        modules = [torch, torch.nn, torch.nn.functional, torch.autograd, torch.linalg, torch.random]
        modules += [m for name, m in sorted(sys.modules.items()) if name.partition(".")[0].startswith("imharness")]
        places: list[Any] = [*modules, torch.Tensor, torch.nn.Module, torch.Generator]
        self._originals = [(module.__name__, module, dict(vars(module))) for module in places]
        self.modules = frozenset(sys.modules)

    def changed(self) -> list[str]:
        """Return the names of functions that were replaced, at most 10."""
        changes = []
        for name, module, before in self._originals:
            now = vars(module)
            changes += [
                f"{name}.{key}" for key, value in before.items() if callable(value) and now.get(key) is not value
            ]
        return changes[:10]

"""A page for each public module, and one for what several of them offer."""

import importlib
import inspect
import types
from collections import Counter

from imharness.notebook import offers

MODULES = (
    "imharness", "imharness.images", "imharness.gradients", "imharness.membership", "imharness.data",
    "imharness.tracks", "imharness.leaderboard", "imharness.training", "imharness.files",
    "imharness.extending", "imharness.commands", "imharness.errors",
)  # fmt: skip
"""What notebooks import, and the doors, which plugins may import: see docs/stability.md."""


def pages() -> dict[str, str]:
    """Return the pages by name."""
    shared = {name for name, count in Counter(n for m in MODULES for n in names(m)).items() if count > 1}
    home = {name: module for module in reversed(MODULES) for name in names(module) if name in shared}
    module_pages = {
        f"module-{m.replace('_', '-')}": _page(m, [n for n in names(m) if n not in shared], shared) for m in MODULES
    }
    head = "# In several modules\n\nEach of these names is offered by several public modules.\n"
    return module_pages | {"module-shared": "\n".join([head, *(_entry(home[name], name) for name in sorted(home))])}


def names(module: str) -> list[str]:
    """Return the names that a public module offers."""
    return sorted(offers()) if module == "imharness" else list(importlib.import_module(module).__all__)


def _page(module: str, member_names: list[str], shared: set[str]) -> str:
    also = ", ".join(f"`{name}`" for name in names(module) if name in shared)
    head = f"# {module}\n\n{inspect.getdoc(importlib.import_module(module))}\n"
    tail = f"\nAlso here, see [names in several modules](module-shared.md): {also}.\n" if also else ""
    return "\n".join([head + tail, *(_entry(module, name) for name in member_names)])


def _entry(module: str, name: str) -> str:
    """Return the directive that documents one name."""
    member = getattr(importlib.import_module(module), name)
    if inspect.isclass(member) and not isinstance(member, types.GenericAlias):
        body = [f".. autoclass:: {module}.{name}", "   :members:", "   :show-inheritance:"]
    elif inspect.isroutine(member):
        body = [f".. autofunction:: {module}.{name}"]
    else:
        body = [f".. py:data:: {module}.{name}", "", f"   {_said(member)}"]
    return "\n".join(["```{eval-rst}", *body, "```", ""])


def _said(value: object) -> str:
    """Return what a constant, a type or a module is, in one line of reStructuredText."""
    if inspect.ismodule(value):
        return (inspect.getdoc(value) or "").partition("\n")[0]
    return f"``{value!r}``".replace("\n", " ")

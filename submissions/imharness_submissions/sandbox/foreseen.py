"""Outside: reads in the text of a package what its first process had better import, before the package ever ran.

A first process that lacks a library has to be started again once the package was described. Nothing follows from a
wrong guess but time: what a package imports all the same is learnt when it is described.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

from imharness.components.loading import GROUP
from imharness.errors import UsageError
from imharness.reading.opening import MIB, read_bytes
from imharness_submissions.sandbox.warming import GRADIENTS, of_libraries

_FILES, _BYTES = 500, 8 * MIB
"""How much of a package is read at most; a larger one may do anything."""
_IMPORTS = re.compile(
    rb"^(?:import[ \t]+([\w., \t]{1,300})|from[ \t]+([\w.]{1,200})[ \t]+import[ \t]+\(?([\w, \t]{0,300}))", re.MULTILINE
)
"""What a module imports as soon as it is imported itself: such a statement is not indented."""
_GRADIENTS = re.compile(
    rb"\b(?:optim|autograd(?!\.Function\b|[ \t]+import[ \t]+Function[ \t]*$)|(?<!def )backward|grad_outputs|checkpoint"
    rb"|func|functorch|vmap|jacobian|compile)\b",
    re.MULTILINE,
)
"""Words without which nothing asks torch for more than the gradient of a number; a function that only brings a gradient
of its own asks for none."""


def foreseen(folder: Path, distribution: str) -> tuple[str, ...]:
    """Return modules of libraries that the modules of a distribution in `folder` seem to import or to need."""
    named, read, sure = list[str](), 0, True
    own = _own(folder, distribution)
    for number, file in enumerate(sorted(folder.rglob("*.py"))):
        try:
            text = read_bytes(file, _BYTES, links=False)
        except (UsageError, OSError):  # a link, a folder or a pipe may have such a name, too
            sure = False
            continue
        read += len(text)
        if number >= _FILES or read > _BYTES:
            sure = False
            break
        if file.relative_to(folder).parts[0].removesuffix(".py") in own:
            named += _imported(text)
        sure = sure and not _GRADIENTS.search(text)
    return of_libraries([*named, *([] if sure else [GRADIENTS])])


def _own(folder: Path, distribution: str) -> set[str]:
    """Return the packages and modules that a distribution lets the harness import; none if it cannot be read."""
    found = [d for d in importlib.metadata.distributions(path=[str(folder)]) if d.name == distribution]
    try:
        values = [point.value for d in found for point in d.entry_points if point.group == GROUP]
    except ValueError:  # a text that is no UTF-8
        return set()
    return {value.partition(":")[0].partition(".")[0].strip() for value in values}


def _imported(text: bytes) -> Iterator[str]:
    for modules, package, names in _IMPORTS.findall(text):
        for part in modules.split(b","):
            yield from (word.decode() for word in part.split()[:1])
        yield package.decode()
        for part in names.split(b","):
            yield from (f"{package.decode()}.{word.decode()}" for word in part.split()[:1])

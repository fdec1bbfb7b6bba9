"""Each paper is listed once, in the `papers.toml` of a plugin's package; components cite it by key."""

import functools
import importlib
import importlib.resources
import tomllib
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from imharness.contracts.component import Component, Paper
from imharness.errors import PluginError, did_you_mean

_PAPERS = TypeAdapter(dict[str, Paper])


def paper_of(component: Component) -> Paper | None:
    """Return where a method was published; raises `PluginError` for a key that the package does not know."""
    cited = component.info.paper
    if not isinstance(cited, str):
        return cited
    cls = type(component)
    package = cls.__module__.partition(".")[0]
    papers = _papers_in(package)
    if cited not in papers:
        hint = did_you_mean(cited, papers)
        raise PluginError(f"{cls.__name__} cites paper={cited!r}, which is not in {package}/papers.toml.{hint}")
    return papers[cited]


@functools.cache
def _papers_in(package: str) -> Mapping[str, Paper]:
    """Return the papers of a package by key; there are none if it is a single module or has no such file."""
    module = importlib.import_module(package)
    if not hasattr(module, "__path__") or not (file := importlib.resources.files(module) / "papers.toml").is_file():
        return {}
    try:
        return _PAPERS.validate_python(tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise PluginError(f"{package}/papers.toml cannot be read: {' '.join(str(error).split())[:200]}") from None

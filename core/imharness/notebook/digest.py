"""Computes digests of objects from their code, closed-over values, the globals that the code reads, and their state.

Two objects with the same digest compute the same. An installed library counts by its name and version; code of the user
is followed to the end. Arrays and tensors count by their bytes, modules by their class and their attributes. An object
whose state cannot be read, such as a lock, an open file or a generator, raises `Undigestible`.

The digest does not cover files that code opens, the environment, random numbers that it draws without its own
generator, and names that it composes while it runs.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

IGNORED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
        "__firstlineno__",
        "__static_attributes__",
        "__qualname__",
        "__parameters__",
    }
)
"""Attributes of a class that do not affect what it does."""
DEEPEST = 200


class Undigestible(Exception):
    """An object has a state that cannot be read; the message says which."""


def digest_of(value: object) -> str:
    """Return the digest of an object, 64 hexadecimal digits; raises `Undigestible`."""
    try:
        return _Walk(value).of(value, 0).hex()
    except RecursionError:
        raise Undigestible("it is nested too deeply") from None


class _Walk:
    """One walk through an object; parts that were seen are not walked again.

    A torch module is used as a copy in evaluation mode, so its mode does not count. The mode of modules inside other
    objects does.
    """

    def __init__(self, root: object) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}
        self._evaluated = {id(part) for part in root.modules()} if isinstance(root, torch.nn.Module) else set[int]()

    def of(self, value: object, depth: int) -> bytes:
        """Return the digest of a value."""
        if depth > DEEPEST:
            raise RecursionError
        simple = _simple(value)
        if simple is not None:
            return _hashed(type(value).__name__.encode(), simple)
        if id(value) in self._known:
            return self._known[id(value)][1]
        self._known[id(value)] = (value, b"a cycle")
        found = _hashed(*self._parts(value, depth + 1))
        self._known[id(value)] = (value, found)
        return found

    def _all(self, values: Iterable[object], depth: int) -> list[bytes]:
        return [self.of(value, depth) for value in values]

    def _named(self, values: Mapping[str, object], depth: int) -> list[bytes]:
        return [part for name, value in values.items() for part in (name.encode(), self.of(value, depth))]

    def _parts(self, value: Any, depth: int) -> list[bytes]:
        if isinstance(value, torch.Tensor):
            return _tensor(value)
        if type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic):
            return _array(np.asarray(value))
        if isinstance(value, Enum):
            return [b"enum", self.of(type(value), depth), value.name.encode(), self.of(value.value, depth)]
        if type(value) in (tuple, list):
            return [type(value).__name__.encode(), *self._all(value, depth)]
        if type(value) in (set, frozenset):
            return [b"set", *sorted(self._all(value, depth))]
        if type(value) in (dict, MappingProxyType):
            items = [part for item in value.items() for part in self._all(item, depth)]
            return [type(value).__name__.encode(), *items]
        if isinstance(value, CodeType):
            return self._code(value, depth)
        if isinstance(value, MethodType):
            return [b"method", *self._all((value.__func__, value.__self__), depth)]
        if isinstance(value, functools.partial):
            return [b"partial", *self._all((value.func, value.args, dict(value.keywords)), depth)]
        if isinstance(value, ModuleType):
            return [b"module", _library(value.__name__), *self._whole(value, depth)]
        if isinstance(value, FunctionType | BuiltinFunctionType | type):
            return self._definition(value, depth)
        if isinstance(value, staticmethod | classmethod):
            return [b"static", self.of(value.__func__, depth)]
        if isinstance(value, property):
            return [b"property", *self._all((value.fget, value.fset), depth)]
        return self._object(value, depth)

    def _definition(self, value: Any, depth: int) -> list[bytes]:
        """Return the parts of a function or class: name and version of its library, or else all that it consists of."""
        if isinstance(value, FunctionType):
            name = str(value.__globals__.get("__name__", "__main__"))  # `functools.wraps` changes __module__
            if not _is_library(name):
                return self._function(value, depth)
            return [b"library", _library(name), value.__code__.co_qualname.encode(), *self._closed(value, depth)]
        holder = getattr(value, "__self__", None)
        if isinstance(value, BuiltinFunctionType) and not isinstance(holder, ModuleType | None):
            return [b"bound", value.__name__.encode(), self.of(holder, depth)]
        name = str(getattr(value, "__module__", None) or "builtins")
        if _is_library(name) and (not isinstance(value, type) or _is_named(value)):
            return [b"library", _library(name), str(getattr(value, "__qualname__", value)).encode()]
        if isinstance(value, type):
            own = {key: part for key, part in vars(value).items() if key not in IGNORED and not _is_slot(part)}
            return [b"class", *self._all((type(value), *value.__bases__), depth), *self._named(own, depth)]
        raise Undigestible(f"{value!r:.60} is compiled code that belongs to no installed library")

    def _function(self, value: FunctionType, depth: int) -> list[bytes]:
        parts = [b"function", self.of(value.__code__, depth)]
        parts += [*self._all((value.__defaults__, value.__kwdefaults__), depth), *self._closed(value, depth)]
        parts += self._named(vars(value), depth)
        for name in sorted(_names(value.__code__)):
            if name in value.__globals__:
                parts += [name.encode(), *self._read(name, value, value.__globals__[name], depth)]
        for name in sorted(_imports(value.__code__, value.__globals__)):
            module = _imported(name)
            parts += [name.encode(), b"absent" if module is None else _library(name)]
            if module is not None and not _is_library(name):
                parts += self._used(module, value, depth)
        return parts

    def _read(self, name: str, function: FunctionType, found: object, depth: int) -> list[bytes]:
        """Return the parts of what a function reads by a name; for a user's module, only what it reads there."""
        if not isinstance(found, ModuleType) or _is_library(found.__name__) or name in _bare(function.__code__):
            return [self._told(name, function, found, depth)]
        return [b"module", found.__name__.encode(), *self._used(found, function, depth)]

    def _closed(self, value: FunctionType, depth: int) -> list[bytes]:
        """Return the parts of the values that a function closes over."""
        parts = list[bytes]()
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                found = cell.cell_contents
            except ValueError:  # not filled yet
                parts += [name.encode(), b"empty"]
            else:
                parts += [name.encode(), *self._read(name, value, found, depth)]
        return parts

    def _told(self, name: str, function: FunctionType, value: object, depth: int) -> bytes:
        """Return the digest of a value that a function reads; an error names the function and the value."""
        try:
            return self.of(value, depth)
        except Undigestible as error:
            raise Undigestible(f"{function.__name__} reads {name}: {error}") from None

    def _used(self, module: ModuleType, function: FunctionType, depth: int) -> list[bytes]:
        """Return the parts that a function may read of a user's module: attributes whose names occur in its code."""
        found, seen, waiting = list[bytes](), set[str](), [module]
        while waiting:
            own = waiting.pop()
            seen.add(own.__name__)
            for name in sorted(_names(function.__code__) & vars(own).keys()):
                part = vars(own)[name]
                if isinstance(part, ModuleType) and not _is_library(part.__name__) and part.__name__ not in seen:
                    waiting.append(part)
                else:
                    found += [name.encode(), self._told(f"{own.__name__}.{name}", function, part, depth)]
        return found

    def _whole(self, module: ModuleType, depth: int) -> list[bytes]:
        """Return the parts of everything in a user's module, or nothing for a library."""
        if _is_library(module.__name__):
            return []
        return self._named({name: part for name, part in vars(module).items() if not name.startswith("__")}, depth)

    def _code(self, code: CodeType, depth: int) -> list[bytes]:
        names = (*code.co_names, "|", *code.co_varnames, "|", *code.co_freevars, "|", *code.co_cellvars)
        facts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, sys.version_info[:2])
        inside = self._all(code.co_consts, depth)
        return [b"code", code.co_code, code.co_exceptiontable, repr(facts).encode(), *map(str.encode, names), *inside]

    def _object(self, value: Any, depth: int) -> list[bytes]:
        """Return the parts of any other object: its class, and what is needed to copy it."""
        if isinstance(value, torch.nn.Module):
            if isinstance(value, torch.jit.ScriptModule):
                raise Undigestible("it is a TorchScript module, whose code cannot be read")
            left_out = {"training"} if id(value) in self._evaluated else set[str]()
            state = {name: part for name, part in vars(value).items() if name not in left_out}
            return [b"object", self.of(type(value), depth), *self._named(state, depth)]
        if isinstance(value, np.ufunc) and any(value is known for known in vars(np).values()):
            return [b"object", self.of(type(value), depth), repr(value).encode()]
        try:
            reduced = value.__reduce_ex__(2)
        except Exception as error:
            raise Undigestible(f"a {type(value).__name__} cannot be read ({error})") from None
        kind = self.of(type(value), depth)
        if isinstance(reduced, str):
            if not hasattr(value, "__wrapped__") and not _is_library(type(value).__module__):
                raise Undigestible(f"a {type(value).__name__} cannot be read")
            return [b"object", kind, reduced.encode(), self.of(getattr(value, "__wrapped__", None), depth)]
        items = [list(part or ()) for part in reduced[3:5]]
        return [b"object", kind, *self._all((*reduced[:2], *reduced[2:3], *items), depth)]


def _simple(value: object) -> bytes | None:
    """Return the bytes of a value without parts, or None."""
    if isinstance(value, Enum):
        return None
    if value is None or isinstance(value, bool | int | float | complex | str | PurePath):
        return repr(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    if value is Ellipsis or isinstance(value, torch.dtype | torch.device | torch.Size | slice | range | np.dtype):
        return repr(value).encode()
    return None


def _tensor(value: torch.Tensor) -> list[bytes]:
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        raise Undigestible("it has a sparse, quantised or empty tensor")
    plain = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return [
        b"tensor",
        str(plain.dtype).encode(),
        repr(tuple(plain.shape)).encode(),
        plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().tobytes(),
    ]


def _array(value: np.ndarray[Any, Any]) -> list[bytes]:
    if value.dtype.hasobject:
        raise Undigestible("it has an array of Python objects")
    return [b"array", repr(value.dtype).encode(), repr(value.shape).encode(), np.ascontiguousarray(value).tobytes()]


def _hashed(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def _names(code: CodeType) -> set[str]:
    """Return every name that code, or code inside it, reads from elsewhere."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return {*code.co_names}.union(*map(_names, inner))


def _steps(code: CodeType) -> list[dis.Instruction]:
    """Return the instructions of code, and of code inside it."""
    found = list(dis.get_instructions(code))
    for const in code.co_consts:
        found += _steps(const) if isinstance(const, CodeType) else []
    return found


def _bare(code: CodeType) -> set[str]:
    """Return the names that code uses other than to read an attribute of what they name."""
    steps = _steps(code)
    return {
        str(one.argval)
        for one, after in zip(steps, [*steps[1:], None], strict=True)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
        and not (after is not None and after.opname in ("LOAD_ATTR", "LOAD_METHOD"))
    }


def _imports(code: CodeType, names: Mapping[str, Any]) -> set[str]:
    """Return the full names of the modules that code imports when it runs, with the packages that they are in."""
    found, steps = set[str](), _steps(code)
    for position, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, package = steps[position - 2].argval, str(names.get("__package__") or "")
            parts = _absolute("." * level + str(step.argval), package).split(".")
            found |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return found


def _absolute(name: str, package: str) -> str:
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        raise Undigestible(f"it imports {name}, whose package is not known") from None


def _imported(name: str) -> ModuleType | None:
    """Return a module by name, or None if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except Exception:  # importing runs somebody's code, which may raise anything
        return None


def _is_named(kind: type) -> bool:
    """Return whether a class can be found in its module by its name, so that it was not made at run time."""
    found: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def _is_slot(part: object) -> bool:
    return inspect.ismemberdescriptor(part) or inspect.isgetsetdescriptor(part)


@functools.cache
def _is_library(name: str) -> bool:
    """Return whether a module comes with Python or from an installed distribution, and not from the user's files."""
    top = name.partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is not None:
        return any(Path(file).is_relative_to(folder) for folder in _library_folders())
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    return top in _distributions() and name in sys.modules


@functools.cache
def _library_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {str(Path(os.__file__).parent), *site.getsitepackages(), site.getusersitepackages()}
    harness = Path(__file__).parents[2]
    own = {str(harness), *(str(harness.parent / name) for name in ("leaderboard", "plugins", "submissions"))}
    return tuple(sorted(found | own))


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def _library(name: str) -> bytes:
    """Return the name of a module with the versions of the distributions that provide it."""
    top = name.partition(".")[0]
    versions = [importlib.metadata.version(own) for own in _distributions().get(top, [])]
    return " ".join([name, *versions]).encode()

"""`harness plugins new`: writes a complete small package for any kind of component.

The package installs, passes its test and runs.
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from imharness.components.hookspecs import API_VERSION
from imharness.contracts.call import Call, call_of
from imharness.contracts.component import ID_PATTERN
from imharness.errors import UsageError, unknown_name
from imharness.results.labels import method_of
from imharness.testing.contracts import contracts

_TRY = {
    "attack": "harness run --track iqa --attack $id --limit 4",
    "fitted-attack": "harness run --track iqa --attack $id --limit 4",
    "defense": "harness run --track iqa --defense none --defense $id --limit 4",
    "certification": "harness run --track iqa --defense none --defense $id --limit 4",
    "training-defense": "harness train $id --metric embedded-cnn --epochs 2",
    "metric": "harness run --track iqa --metric $id --attack ifgsm --limit 4",
    "full-reference-metric": "harness run --track perceptual --metric psnr --metric $id --limit 12",
    "distribution-metric": "harness run --track reconstruction --metric psnr --metric $id --attack invgrad --limit 4",
    "reconstruction-attack": "harness run --track reconstruction --attack $id --limit 4",
    "gradient-defense": "harness run --track reconstruction --defense plain-gradient --defense $id --limit 4",
    "image-protection": "harness run --track reconstruction --defense plain-gradient --defense $id --limit 4",
    "evaluator": "harness run --track membership --evaluator confidence --evaluator $id",
    "membership-training": "harness run --track membership --defense plain-training --defense $id",
    "membership-release": "harness run --track membership --defense plain-training --defense $id",
    "model": "harness run --track membership --model $id --defense plain-training --evaluator confidence",
    "dataset": "harness run --track iqa --dataset $id --attack ifgsm --limit 8",
    "table-dataset": "harness run --track membership --dataset $id --defense plain-training --evaluator confidence",
    "weight-training": "harness train $id --steps 20",
    "track": "harness run --all --profile profile.toml --limit 8",
}
KINDS = tuple(_TRY)
"""The kinds that `new` can make; each has a module in the folder ``kinds``."""


def write_package(kind: str, name: str, parent: Path, author: str, *, package: bool = False) -> Path:
    """Write a package for `name`, ``owner/method``, into a new folder below `parent`, and return the folder.

    Its code is one module, or with `package` a folder with an ``__init__.py``, all files of which are in its wheel.

    Raises `UsageError` for an unknown kind, an invalid name, or a folder that exists already.
    """
    if kind not in KINDS:
        raise UsageError(unknown_name(f"{kind!r} is not a kind of package", kind, KINDS, "Kinds"))
    if "/" not in name:
        raise UsageError(f"{name!r} has no owner: write OWNER/METHOD, such as acme/median-smoothing.")
    module = re.sub(r"[^a-z0-9]+", "_", name)
    if (
        not re.fullmatch(ID_PATTERN, name)
        or name.startswith("harness/")
        or not module.isidentifier()
        or keyword.iskeyword(module)
    ):
        raise UsageError(
            f"{name!r} cannot name a component: owner/method in small letters, digits and dashes, owner not harness."
        )
    if any(character in author for character in '"\\\n'):
        raise UsageError("the author's name must not contain quotes, backslashes or line breaks.")
    method, source = method_of(name), f"{module}/__init__.py" if package else f"{module}.py"
    words = {
        "id": name,
        "method": method,
        "entry": method.replace(".", "-"),  # the part after a dot would name a hook
        "module": module,
        "source": source,
        "wheel": f'packages = ["{module}"]' if package else f'include = ["{source}"]',
        "distribution": module.replace("_", "-"),
        "class_name": "".join(word.capitalize() for word in re.split(r"[^a-z0-9]+", method)) or "Plugin",
        "title": method.replace("-", " ").replace(".", " ").capitalize(),
        "kind": kind.replace("-", " "),
        "article": "an" if kind[0] in "aeiou" else "a",
        "author": author,
        "api": API_VERSION,
        "try_it": Template(_TRY[kind]).substitute(id=name),
    }
    taken = set(re.findall(r"\w+", (files(__package__) / f"kinds/{kind}.txt").read_text(encoding="utf-8")))
    if not words["class_name"].isidentifier() or words["class_name"] in taken:
        words["class_name"] = f"The{words['class_name']}"
    folder = parent / words["distribution"]
    if folder.exists():
        raise UsageError(f"{folder} exists already; choose another name, or --dir.")
    sources = {
        "pyproject.toml": "pyproject",
        "README.md": "readme",
        "LICENSE": "licence",
        "tests/test_plugin.py": "test",
        source: f"kinds/{kind}",
    }
    if kind == "track":
        sources["profile.toml"] = "profile"
    for target, template in sources.items():
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _with_signatures((files(__package__) / f"{template}.txt").read_text(encoding="utf-8"))
        path.write_text(Template(text).substitute(words), encoding="utf-8")
    return folder


def _with_signatures(text: str) -> str:
    """Return a template in which ``def name${method}:`` is replaced by the signature that the contract gives it."""
    base = re.search(r"class \$class_name\((\w+)\)", text)

    def written(match: re.Match[str]) -> str:
        call = call_of(contracts()[base[1] if base else ""], match["method"])
        return match["space"] + _signature(call, match["name"], match["space"])

    return re.sub(r"(?P<space> *)def (?P<name>\w+)\$\{(?P<method>\w+)\}:", written, text)


def _signature(call: Call, name: str, space: str, width: int = 120) -> str:
    """Return the signature of a function, on several lines if one is too short."""
    listed = ["self"] * call.direct + [f"{n}: {kind.annotation}" for n, kind in call.arguments.items()]
    line = f"def {name}({', '.join(listed)}) -> {call.returns.annotation}:"
    if len(space) + len(line) <= width:
        return line
    inner = ", ".join(listed)
    if len(space) + 4 + len(inner) > width:
        inner = f",\n{space}    ".join(listed) + ","
    return f"def {name}(\n{space}    {inner}\n{space}) -> {call.returns.annotation}:"

"""Writes the first manifest for a package, and writes manifests again from the ledger."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imharness.components.registry import explain
from imharness.contracts.attack import BaseAttack
from imharness.documents.tables import joined
from imharness.errors import PluginError, UsageError
from imharness.reading.opening import read_bytes
from imharness.reading.wheels import BYTES, WHEEL_NAME, check_wheel
from imharness_submissions.environment import environment_of, locked
from imharness_submissions.ledger import Line
from imharness_submissions.manifest import FILE, LOCK, NAME_PATTERN, PLACEHOLDERS, Hardware, Package, Submission
from imharness_submissions.opening import spec_for
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.proxies import PackageDescription, offer_of

KINDS = ("attack", "defense", "metric", "evaluator")


def start_submission(name: str, wheel: Path, parent: Path, *, trusted: bool) -> Path:
    """Write a submission's folder below `parent`, and return it.

    The package is started in the sandbox to learn what it registers. Raises `UsageError` for a name or a wheel that
    cannot be used, `PluginError` when the package registers nothing that can be ranked.
    """
    name_match = WHEEL_NAME.match(wheel.name)
    if name_match is None or not re.match(NAME_PATTERN, name):
        raise UsageError(
            f"{name!r}, {wheel.name!r}: give a name of small letters, digits and dashes, and the file of a wheel."
        )
    folder = parent / name
    if folder.exists():
        raise UsageError(f"{folder} exists; choose another name.")
    package = Package(
        name=name_match["name"].replace("_", "-"),
        version=name_match["version"],
        sha256=hashlib.sha256(read_bytes(wheel, BYTES)).hexdigest(),
        file=os.path.relpath(wheel, folder),
    )
    wanted = check_wheel(wheel).requirements
    folder.mkdir(parents=True)
    try:
        lock = locked(wanted)
        if lock:
            (folder / LOCK).write_text(lock, encoding="utf-8")
        environment = environment_of(folder, package, trusted=trusted)
        guest = Guest(spec_for(package.name, environment, Hardware(), trusted=trusted))
        try:
            text = _manifest(package, offer_of(guest), guest)
        finally:
            guest.kill()
    except BaseException:  # Ctrl-C too: half a folder would stand in the way of the next try
        shutil.rmtree(folder)
        raise
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder


def to_fill_in(folder: Path) -> str:
    """Return in words what an author still has to write into the manifest that was started in a folder."""
    text = (folder / FILE).read_text(encoding="utf-8")
    names = {"author": "authors", "contact": "contact", "licence": "licence"}
    lacking = [names[kind] for kind, placeholder in PLACEHOLDERS.items() if placeholder in text]
    return f"fill in {joined(lacking)}; state the training data that you used, and claims if you have any"


def _manifest(package: Package, description: PackageDescription, guest: Guest) -> str:
    entries = [e.component for e in description.entries(guest) if e.component.kind in KINDS]
    if not entries:
        raise PluginError(f"{package.name} registers no attack, defense, metric or evaluator")
    head: dict[str, Any] = {
        "format": 1,
        "summary": f"{entries[0].info.id}: {entries[0].summary}"[:500],
        "authors": [description.author or PLACEHOLDERS["author"]],
        "contact": PLACEHOLDERS["contact"],
        "licence": description.licence or PLACEHOLDERS["licence"],
        "extra_training_data": "none",
    }
    blocks = [toml_lines(head), "[package]\n" + toml_lines(package.model_dump(exclude_defaults=True))]
    for component in entries:
        changed = {
            name: value
            for name, value in component.model_dump(mode="json").items()
            if value != type(component).model_fields[name].get_default(call_default_factory=True)
        }
        facts: dict[str, Any] = {"kind": component.kind, "id": component.info.id, "parameters": changed}
        if isinstance(component, BaseAttack):
            facts["strengths"] = {name: dict(fields) for name, fields in component.info.strengths.items()}
        blocks.append("[[entries]]\n" + toml_lines(facts))
    blocks.append(_CLAIMS)
    return "\n".join(blocks)


_CLAIMS = """# Numbers that you claim, one block for each; `harness submissions run` compares them with the tables.
# [[claims]]
# track = "harness/iqa"
# table = "defenses"
# row = "owner/method"
# column = "score"
# value = 0.5
# tolerance = 0.05
"""


def toml_lines(facts: Mapping[str, Any]) -> str:
    """Return a line of TOML for each fact: texts, numbers, truth values, and lists and mappings of them."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in facts.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return _quoted(str(value))


def _key(name: str) -> str:
    return name if re.match(r"^[A-Za-z0-9_-]+$", name) else _quoted(name)


def _quoted(text: str) -> str:
    marks = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(marks.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'


def write_manifest(line: Line, parent: Path) -> Path:
    """Write the manifest that a line of the ledger holds into a folder below `parent`, and return the folder.

    Raises `UsageError` if the manifest is not valid.
    """
    try:
        facts = Submission.model_validate(line.manifest).model_dump(mode="json")
    except ValidationError as error:
        raise UsageError(f"decision {line.number}, {line.name}: {explain(error, Submission)}") from None
    folder = parent / line.name
    folder.mkdir()
    package = {name: value for name, value in facts["package"].items() if value}
    plain = {k: v for k, v in facts.items() if k not in ("package", "entries", "claims", "hardware")}
    blocks = [toml_lines(plain), "[package]\n" + toml_lines(package), "[hardware]\n" + toml_lines(facts["hardware"])]
    blocks += ["[[entries]]\n" + toml_lines(entry) for entry in facts["entries"]]
    blocks += ["[[claims]]\n" + toml_lines(claim) for claim in facts["claims"]]
    (folder / FILE).write_text("\n".join(blocks), encoding="utf-8")
    if line.lock:
        (folder / LOCK).write_text("\n".join(line.lock) + "\n", encoding="utf-8")
    return folder

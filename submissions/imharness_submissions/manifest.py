"""Reads `submission.toml`: the package, its entries, its authors, and what they claim. Loads no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from imharness.components.registry import explain
from imharness.contracts.component import ID_PATTERN
from imharness.errors import UsageError
from imharness.reading.opening import MIB, read_text
from imharness.reading.requirements import requirement_of
from imharness.reading.structured import read_toml, texts_in
from imharness.reading.text import is_plain
from imharness.results.labels import label_of

FILE = "submission.toml"
LOCK = "requirements.txt"
LONGEST = 1_000
MOST_ENTRIES = 8
"""The most entries of a submission; a study of a parameter belongs into a paper."""
NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,60}$"
PLACEHOLDERS = {"contact": "you@example.org", "author": "The author", "licence": "name the licence"}
"""What `harness submissions new` and `harness plugins new` write where nothing is known; no manifest may keep it."""
FORGES = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org", "huggingface.co")
"""Hosts that give the first part of a path to one account."""
_HASHED = re.compile(r"(.*?)(?: --hash=sha256:[0-9a-f]{64})+")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Package(_Strict):
    """The pinned code: a wheel with its hash, or a commit of a repository.

    The wheel comes from the index, from an address, or from a file. A file is for trying a submission out, because
    others cannot get it.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$")
    version: str = Field(pattern=r"^[0-9][A-Za-z0-9.+!-]{0,60}$")
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$", description="Of the wheel.")
    address: str = Field(default="", pattern=r"^(https://\S+\.whl)?$", description="Of the wheel, if not the index.")
    file: str = Field(default="", max_length=300, description="A wheel beside the manifest, for trying out.")
    repository: str = Field(default="", pattern=r"^(https://\S+)?$")
    commit: str = Field(default="", pattern=r"^([0-9a-f]{40})?$")

    @model_validator(mode="after")
    def _one_way(self) -> Package:
        if bool(self.repository) != bool(self.commit):
            raise ValueError("give repository and commit (40 digits) together")
        if bool(self.sha256) == bool(self.repository):
            raise ValueError("pin the package by the sha256 of its wheel, or by repository and commit")
        if ((self.address or self.file) and self.repository) or (self.address and self.file):
            raise ValueError("give one of address, file and repository")
        return self

    @property
    def account(self) -> str:
        """Whose account of a forge the package comes from, in small letters; empty where its address tells none."""
        host, _, path = (self.repository or self.address).removeprefix("https://").partition("/")
        return path.partition("/")[0].casefold() if host.casefold() in FORGES else ""


class SubmittedEntry(_Strict):
    """A component of the package that is to be ranked. An attack also gives its `strengths`: weak, medium, strong."""

    kind: Literal["attack", "defense", "metric", "evaluator"]
    id: str = Field(pattern=ID_PATTERN)
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    strengths: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in tables."""
        return label_of(self.id, self.parameters)

    @property
    def owner(self) -> str:
        """What stands before the slash of the id."""
        return self.id.partition("/")[0]


class Claim(_Strict):
    """A number that the authors claim, by its table, row and column, and the tolerance (absolute)."""

    track: str = Field(pattern=ID_PATTERN)
    table: str
    row: str
    column: str
    value: float
    tolerance: float = Field(ge=0)


class Hardware(_Strict):
    """The hardware that the package asks for."""

    gpu: bool = Field(default=False, description="Without it, the whole submission is measured on the CPU.")
    memory_gib: float = Field(default=6, gt=0, le=64)
    answer_s: float = Field(default=600, gt=0, le=7200, description="Time limit of one call, s.")


class Submission(_Strict):
    """The content of a manifest."""

    format: Literal[1]
    summary: str = Field(min_length=10, max_length=500)
    authors: tuple[str, ...] = Field(min_length=1)
    contact: str = Field(pattern=r"^\S+@\S+\.\S+$|^https://\S+$", description="An e-mail address or a page.")
    licence: str = Field(min_length=2, max_length=100)
    paper: str = Field(default="", pattern=r"^(https://\S+)?$")
    extra_training_data: str = Field(min_length=4, description="Training data beyond what the harness has, or none.")
    package: Package
    entries: tuple[SubmittedEntry, ...] = Field(min_length=1, max_length=MOST_ENTRIES)
    claims: tuple[Claim, ...] = ()
    hardware: Hardware = Hardware()

    @model_validator(mode="before")
    @classmethod
    def _lines(cls, content: Any) -> Any:
        wrong = next((text for text in texts_in(content) if not is_plain(text) or len(text) > LONGEST), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r:.80} must be one line of text, of {LONGEST} characters at most")
        return content

    @field_validator("authors", "contact", "licence")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        for text in [value] if isinstance(value, str) else value:
            if text in PLACEHOLDERS.values() or re.search(r"[@/.]example\.(org|com|net)\b", text):
                raise ValueError("this is a placeholder; replace it")
        return value

    @field_validator("entries")
    @classmethod
    def _distinct(cls, entries: tuple[SubmittedEntry, ...]) -> tuple[SubmittedEntry, ...]:
        labels = [(entry.kind, entry.label) for entry in entries]
        twice = sorted({label for kind, label in labels if labels.count((kind, label)) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is listed twice")
        if len(names := sorted({entry.owner for entry in entries})) > 1:
            raise ValueError(f"the ids have {len(names)} owners, {names[0]} and {names[1]}; a submission has one")
        return entries

    @property
    def owner(self) -> str:
        """The owner of its ids, which is one."""
        return self.entries[0].owner


def read_manifest(folder: Path) -> Submission:
    """Return the manifest in a folder; raises `UsageError` when it is missing or not valid."""
    path = folder / FILE
    if not re.fullmatch(NAME_PATTERN, folder.resolve().name):
        raise UsageError(f"{folder}: the name of a submission's folder may hold small letters, digits and dashes.")
    if not path.exists():
        raise UsageError(f"{path} does not exist; write one with `harness submissions new`.")
    content = read_toml(path)
    try:
        return Submission.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error, Submission)}") from None


def read_lock(folder: Path) -> list[str]:
    """Return the pinned requirements beside a manifest, one a line; raises `UsageError` when one has no hash."""
    path = folder / LOCK
    if not path.exists():
        return []
    text = read_text(path, MIB).replace("\r\n", "\n").replace("\\\n", " ")
    stripped_lines = (" ".join(filter(None, line.split(" "))) for line in text.split("\n"))
    lines = [line for line in stripped_lines if line and not line.startswith("#")]
    for line in lines:
        if not is_plain(line) or not (pin_match := _HASHED.fullmatch(line)) or not _is_one_version(pin_match[1], path):
            raise UsageError(f"{path}: {line[:100]!r} is not pinned as name==version --hash=sha256:…")
    return lines


def _is_one_version(text: str, path: Path) -> bool:
    """Say whether a requirement names one version; raises `UsageError` when it has an address or an option."""
    versions = list(requirement_of(text, str(path)).specifier)
    return [(v.operator, "*" in v.version) for v in versions] == [("==", False)]

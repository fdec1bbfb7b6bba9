"""The page of file formats: the fields of each file, from the model that reads it."""

import inspect
import re
import types
import typing
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from imharness.contracts.component import Paper
from imharness.documents.leaderboards import Leaderboard
from imharness.planning.profile import Profile
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord
from imharness_iqa.calibration import Preset
from imharness_submissions.ledger import Line
from imharness_submissions.manifest import Submission

FILES: dict[str, tuple[str, type[BaseModel]]] = {
    "A profile": ("TOML: what `harness run --profile FILE.toml` takes; a package's part has `tracks` only.", Profile),
    "papers.toml": ("TOML, in the package of a plugin: key -> the fields below.", Paper),
    "submission.toml": ("TOML, one for each submission: see [Submissions](../howto/submit.md).", Submission),
    "Strengths of attacks": ("JSON, a list: what `harness iqa calibrate` writes.", Preset),
    "ledger.jsonl": ("A line of JSON for each decision about a submitted entry.", Line),
    "A record": ("JSON, one for each cell of a store, beside its rows (Parquet) and its arrays.", TaskRecord),
    "A sweep": ("JSON, one for each call of `harness run` and track.", Sweep),
    "results.json": ("JSON, the tables of a track as the site and `harness results export` read them.", Leaderboard),
}
"""Heading -> what kind of file it is, and the model of its content."""
BOUNDS = {
    "ge": "at least {}",
    "gt": "above {}",
    "le": "at most {}",
    "lt": "below {}",
    "min_length": "of length {} or more",
    "max_length": "of length {} or less",
}
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])")


def pages() -> dict[str, str]:
    """Return the page by its name."""
    head = (
        "# Profiles and files\n\nEach file is read by a model that takes no other fields and no other types. "
        "The tables below are made from these models. [Your own files](/reference/files.md) describes the layout of "
        "images, scores and outputs of models.\n"
    )
    sections = [head]
    described: set[type[BaseModel]] = set()
    for title, (what, model) in FILES.items():
        sections.append(f"## {title}\n\n{what}\n")
        for each in nested(model):
            if each not in described:
                described.add(each)
                sections.append(("" if each is model else f"### {title}: {each.__name__}\n\n") + table(each))
    return {"formats": "\n".join(sections)}


def table(model: type[BaseModel]) -> str:
    """Return what a model is, and a table of its fields, as Markdown."""
    rows = [
        f"| `{name}` | {_type(field)} | {_default(field)} | {_meaning(field)} |"
        for name, field in model.model_fields.items()
    ]
    head = "| field | type | default | meaning |\n|---|---|---|---|\n"
    return f"{inspect.getdoc(model) or ''}\n\n{head}" + "\n".join(rows) + "\n"


def nested(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model and every model that its fields hold."""
    yield model
    for field in model.model_fields.values():
        for submodel in _models_in(field.annotation):
            yield from nested(submodel)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _type(field: FieldInfo) -> str:
    return f"`{cell(_MODULE.sub('', inspect.formatannotation(field.annotation)))}`"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return f"`{cell(repr(field.get_default(call_default_factory=True)))}`"


def _meaning(field: FieldInfo) -> str:
    bounds = [
        text.format(getattr(bound, name))
        for bound in field.metadata
        for name, text in BOUNDS.items()
        if getattr(bound, name, None) is not None
    ]
    return cell(" ".join(filter(None, [field.description, (", ".join(bounds) + ".").capitalize() if bounds else ""])))


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")

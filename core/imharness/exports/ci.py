"""What a CI shows of a run: a JUnit file with a case for each cell, and lines that GitHub makes annotations of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from imharness.reading.text import stripped

SHOWN = 10
"""GitHub shows so many errors of a step."""


@dataclass(frozen=True)
class Cell:
    """A cell of a run: where it stands, what became of it, and why it has no result. `file` is of whoever failed."""

    track: str
    step: str
    name: str
    status: Literal["done", "failed", "missing"]
    why: str = ""
    details: str = ""
    seconds: float = 0.0
    file: str = ""


def junit(cells: Sequence[Cell]) -> bytes:
    """Return a JUnit file: a suite for each track, failures for failed cells, and skipped cases for missing ones."""
    suites: dict[str, list[Cell]] = {}
    for cell in cells:
        suites.setdefault(cell.track, []).append(cell)
    root = ElementTree.Element("testsuites", _counts("harness run", cells))
    for track, own in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(stripped(track), own))
        for cell in own:
            case = {
                "classname": stripped(f"{cell.track}.{cell.step}"),
                "name": stripped(cell.name),
                "time": f"{cell.seconds:.3f}",
            }
            element = ElementTree.SubElement(
                suite, "testcase", case | ({"file": stripped(cell.file)} if cell.file else {})
            )
            if cell.status == "failed":
                failure = ElementTree.SubElement(element, "failure", {"message": stripped(cell.why)})
                failure.text = stripped(cell.details or cell.why)
            elif cell.status == "missing":
                ElementTree.SubElement(element, "skipped", {"message": stripped(cell.why)})
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _counts(name: str, cells: Sequence[Cell]) -> dict[str, str]:
    counts: Mapping[str, int] = {
        "tests": len(cells),
        "failures": sum(cell.status == "failed" for cell in cells),
        "errors": 0,
        "skipped": sum(cell.status == "missing" for cell in cells),
    }
    seconds = sum(cell.seconds for cell in cells)
    return {"name": name, **{key: str(count) for key, count in counts.items()}, "time": f"{seconds:.3f}"}


def github_lines(cells: Iterable[Cell]) -> list[str]:
    """Return workflow commands of GitHub Actions for failed cells; the last one counts those that GitHub hides."""
    failed = [cell for cell in cells if cell.status == "failed"]
    shown = failed if len(failed) <= SHOWN else failed[: SHOWN - 1]
    lines = [_error(cell.file, f"{cell.track}: {cell.name}", cell.why) for cell in shown]
    if len(shown) < len(failed):
        lines.append(_error("", "harness run", f"{len(failed) - len(shown)} more cells failed"))
    return lines


def _error(file: str, title: str, message: str) -> str:
    place = f"file={_property(file)}," if file else ""
    return f"::error {place}title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    """Return a text as the message of a workflow command, in which only these signs mean something."""
    return stripped(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

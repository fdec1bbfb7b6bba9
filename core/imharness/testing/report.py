"""Reports of the conformance suite, and the components of a package that lies in a folder."""

from __future__ import annotations

import importlib
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from imharness.components.loading import GROUP
from imharness.contracts.component import Component
from imharness.errors import UsageError
from imharness.reading.structured import read_toml
from imharness.testing.conformance import CheckResult, components_of


def components_in(folder: Path) -> list[Component]:
    """Return the components that a package's entry points register; its modules are imported from the folder."""
    try:
        project = read_toml(folder / "pyproject.toml")["project"]
        points = project["entry-points"][GROUP]
    except (UsageError, KeyError, TypeError) as error:
        raise UsageError(f"{folder}/pyproject.toml declares no entry points of the group {GROUP}: {error}") from None
    roots = [str(path.resolve()) for path in (folder, folder / "src") if path.is_dir()]
    sys.path[:0] = roots
    try:
        return [c for module in dict.fromkeys(points.values()) for c in components_of(importlib.import_module(module))]
    except ImportError as error:
        raise UsageError(f"{folder}: {error}; install what it needs first") from None
    finally:
        for root in roots:
            sys.path.remove(root)


def junit_xml(outcomes: Sequence[CheckResult]) -> str:
    """Return outcomes as a JUnit report."""
    counts = {
        "tests": len(outcomes),
        "failures": sum(o.status == "failed" for o in outcomes),
        "skipped": sum(o.status == "skipped" for o in outcomes),
        "time": f"{sum(o.seconds for o in outcomes):.3f}",
    }
    suite = ET.Element("testsuite", {"name": "conformance"} | {name: str(n) for name, n in counts.items()})
    for o in outcomes:
        case = ET.SubElement(suite, "testcase", {"classname": o.component, "name": o.check, "time": f"{o.seconds:.3f}"})
        if o.status != "passed":
            tag = "failure" if o.status == "failed" else "skipped"
            ET.SubElement(case, tag, {"message": "".join(c for c in o.message if c.isprintable())})
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

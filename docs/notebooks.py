"""Writes tutorials as notebooks that install the harness in their first cell: `docs/notebooks/*.ipynb`.

    python docs/notebooks.py [--check]

They run on two cores in minutes, without a GPU, and so on Colab, which opens them from the repository. A person edits
the tutorials.
"""

import json
import re
import sys
from pathlib import Path

from imharness.cli import console

HERE = Path(__file__).parent
CHOSEN = ("start/run-it", "tutorials/my-defense", "tutorials/audit-my-model")
INSTALL = "%pip install --quiet image-privacy-harness"
"""One line."""
FENCE = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$\n?", re.M | re.S)
OPTIONS = re.compile(r"\A(?::[^\n]*\n)+|\A---\n.*?^---\n", re.M | re.S)


def notebook(text: str) -> str:
    """Return a tutorial in MyST Markdown as a notebook, without outputs."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    cells = [_cell("code", INSTALL)]
    end = 0
    for fence in FENCE.finditer(body):
        cells += [_cell("markdown", body[end : fence.start()]), _cell("code", OPTIONS.sub("", fence[1]))]
        end = fence.end()
    cells.append(_cell("markdown", body[end:]))
    filled = [cell for cell in cells if cell["source"]]
    for number, cell in enumerate(filled):
        cell["id"] = f"cell-{number}"
    facts = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = {"cells": filled, "metadata": facts, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str) -> dict[str, object]:
    fields: dict[str, object] = {"cell_type": kind, "id": "", "metadata": {}, "source": text.strip("\n")}
    return fields | {"execution_count": None, "outputs": []} if kind == "code" else fields


def main(check: bool) -> int:
    """Write the notebooks, or say which is out of date."""
    old = 0
    (HERE / "notebooks").mkdir(exist_ok=True)
    for name in CHOSEN:
        text = notebook((HERE / f"{name}.md").read_text(encoding="utf-8"))
        path = HERE / "notebooks" / f"{Path(name).name}.ipynb"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old += 1
            console.say(f"out of date: {path}; run python docs/notebooks.py" if check else f"{path}")
            if not check:
                path.write_text(text, encoding="utf-8")
    return old if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))

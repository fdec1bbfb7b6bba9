"""Write the generated parts of the pages; with --check, say which are out of date.

A generated part stands between ``<!-- generated: KIND ARGUMENT -->`` and ``<!-- end -->``. Kinds: ``file`` (the text of
a file of this repository), ``output`` (what a command prints, run in an empty folder), ``script`` (what a script of
this folder prints), ``orders`` (how a track of a run compares with its paper; ``docs/compared.py`` made the file),
``study`` (what ran in a study), ``table`` (one of its tables), ``conclusions`` (what its board says beside the demo's)
and ``numbers`` (published numbers beside ours, where the setting is the paper's); ``docs/studies.py`` made the file of
the last four. ``credits`` is a table of sources, as a package carries it.
"""

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from imharness.cli import cli
from imharness.reading.credits import credits_in

ROOT = Path(__file__).resolve().parents[1]
STUDIES = tuple(sorted(f"docs/studies/{path.stem}.md" for path in (ROOT / "docs" / "studies").glob("*.json")))
PAGES = ("CONTRIBUTING.md", "docs/credits.md", "docs/papers.md", "docs/using.md", *STUDIES)
PART = re.compile(r"(<!-- generated: (\w+) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml"}


def file_block(argument: str) -> str:
    """Return a file as a fenced block."""
    path = ROOT / argument
    return f"```{LANGUAGES[path.suffix]}\n{path.read_text().rstrip()}\n```\n"


def output_block(argument: str) -> str:
    """Return a command and its output as a fenced block."""

    def call() -> None:
        if code := cli.main(shlex.split(argument)[1:], prog_name="harness", standalone_mode=False):
            raise SystemExit(f"{argument}: exit code {code}")

    shown = printed(call)
    lines = "\n".join(line.rstrip() for line in shown.rstrip().splitlines())
    return f"```text\n$ {argument}\n{lines}\n```\n"


def script_block(argument: str) -> str:
    """Return what a script of this folder prints without weights and data; the argument is ``SCRIPT ARGUMENT...``."""
    name, *arguments = argument.split()
    path = str(ROOT / "docs" / name)
    sys.argv, given = [path, *arguments], sys.argv
    try:
        return printed(lambda: runpy.run_path(path, run_name="__main__"))
    finally:
        sys.argv = given


def printed(call: Callable[[], object]) -> str:
    """Return what a call prints in an empty folder, without weights and data."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as shown,
    ):
        bare = {"COLUMNS": "100", "NO_COLOR": "1", "HARNESS_ASSETS": "", "XDG_CACHE_HOME": folder}
        before = dict(os.environ)
        os.environ.update(bare)
        try:
            call()
        finally:
            os.environ.clear()
            os.environ.update(before)
    return shown.getvalue().replace(folder, "~/.cache")


def conclusions_block(argument: str) -> str:
    """Return what the main rankings of a study and of the demo say; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    lines = ["| board | says | first of what it found |", "|---|---|---|"]
    for place in (file, "docs/compared.json"):
        own = json.loads((ROOT / place).read_text())[track]
        first = own["claims"][0]
        [tier, text], *_ = [*first["found"].items(), ("", "Nothing.")]
        found = f"{tier.capitalize()}: {text}" if tier else text
        lines.append(f"| `{own['profile']}` | {first['claim']} | {found} |")
    return "\n".join(lines) + "\n"


def orders_block(argument: str) -> str:
    """Return the headline quantities of a track as a table; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    facts = json.loads((ROOT / file).read_text())[track]
    lines = [
        f"Profile {facts['profile']}, seed {facts['seed']}, {facts['finished'][:10]}, digest of the results "
        f"{facts['sources'][:12]}. {facts['answer']}",
        "",
        "| table | quantity | says | tau-b | 95 % | p | entries |",
        "|---|---|---|---|---|---|---|",
    ]
    for own in facts["headlines"]:
        between = "" if own["low"] is None else f"{own['low']:.2f} to {own['high']:.2f}"
        tau, p = ("" if own[name] is None else f"{own[name]:.2g}" for name in ("tau", "p"))
        quantity = own["quantity"].replace("|", "\\|")
        lines.append(f"| `{own['table']}` | {quantity} | {own['says']} | {tau} | {between} | {p} | {own['n']} |")
    return "\n".join(lines) + "\n"


def study_block(argument: str) -> str:
    """Return what ran in a study, in one paragraph; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    own = json.loads((ROOT / file).read_text())[track]
    failed = f"{own['cells_failed']} failed" if own["cells_failed"] else "none failed"
    missing = f", {own['cells_missing']} could not be planned for want of a file" if own["cells_missing"] else ""
    waiting = f", {own['waiting']} were not computed" if own["waiting"] else ""
    return (
        f"Profile `{own['profile']}`, seed {own['seed']}, {own['finished'][:10]}: {own['cells_done']:,} cells, {failed}"
        f"{missing}{waiting}; {own['minutes']:.0f} minutes of work. Digest of the results: {own['sources'][:12]}.\n"
    )


def table_block(argument: str) -> str:
    """Return a table of a study; the argument is ``FILE TRACK TABLE``."""
    file, track, id = argument.split()
    return "\n".join(json.loads((ROOT / file).read_text())[track]["tables"][id]) + "\n"


def numbers_block(argument: str) -> str:
    """Return published numbers beside ours, where the setting is the paper's; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    lines = ["| table | quantity | of | published | ours | 95 % | n | says |", "|---|---|---|---|---|---|---|---|"]
    for own in json.loads((ROOT / file).read_text())[track]["numbers"]:
        between = "" if own["low"] is None else f"{own['low']:.3f} to {own['high']:.3f}"
        lines.append(
            f"| `{own['table']}` | {own['quantity']} | {own['entry']} | {own['published']:.3f} | {own['value']:.3f} | "
            f"{between} | {own['n']} | {own['verdict']} |"
        )
    return "\n".join(lines) + "\n"


def credits_block(argument: str) -> str:
    """Return a table of sources as a table of the page; the argument is the file."""
    lines = ["| what | who | licence | where | source |", "|---|---|---|---|---|"]
    for one in credits_in(ROOT / argument):
        address = f"<{one.address}>" if one.address.startswith("https://") else f"`{one.address}`"
        lines.append(f"| {one.title} | {one.attribution} | {one.licence} | {one.standing} | {address} |")
    return "\n".join(lines) + "\n"


BLOCKS = {
    "file": file_block,
    "output": output_block,
    "script": script_block,
    "orders": orders_block,
    "study": study_block,
    "table": table_block,
    "conclusions": conclusions_block,
    "numbers": numbers_block,
    "credits": credits_block,
}


def generated(text: str) -> str:
    """Return a page with its generated parts made anew."""
    return PART.sub(lambda m: m[1] + BLOCKS[m[2]](m[3]) + m[4], text)


def main() -> int:
    """Write or check all pages; return the exit code."""
    stale = []
    for name in PAGES:
        page = ROOT / name
        before = page.read_text()
        after = generated(before)
        if after != before:
            stale.append(name)
            if "--check" not in sys.argv:
                page.write_text(after)
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"out of date: {', '.join(stale)}; run python docs/generate.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

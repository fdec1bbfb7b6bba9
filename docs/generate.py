"""Write the generated parts of the pages; with --check, say which are out of date.

A generated part stands between ``<!-- generated: KIND ARGUMENT -->`` and ``<!-- end -->``. Kinds:

- ``file``: the text of a file of this repository; ``credits``: a table of sources, as a package carries it;
- ``output``: what a command prints in an empty folder; ``script``: what a script of this folder prints;
- ``threats``: the threats of ``docs/threats.toml`` in one state, with the tests; ``contracts``: its other table;
- ``screen``: what a terminal shows of a ranking; ``orders``: how a track of a run compares with its paper, both from
  a file that ``docs/compared.py`` or ``docs/studies.py`` made;
- ``study``: what ran in a study; ``table``: one of its tables; ``rows``: some rows and columns of it;
  ``numbers``: published numbers beside ours, where the setting is the paper's. ``docs/studies.py`` made their file;
- ``otherwise``: what the public code of a paper's authors computes otherwise than the paper says.
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
import tomllib
from collections.abc import Callable
from pathlib import Path

from imharness.cli import cli
from imharness.papers.comparison import compare
from imharness.papers.published import published_tables
from imharness.reading.credits import credits_in

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OURS = ("README.md", "CONTRIBUTING.md", "submissions/README.md")
"""Pages outside of docs/ that may have generated parts."""
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

    output = printed(call)
    lines = "\n".join(line.rstrip() for line in output.rstrip().splitlines())
    return f"```text\n$ {argument}\n{lines}\n```\n"


def script_block(argument: str) -> str:
    """Return what a script of this folder prints without weights and data; the argument is ``SCRIPT ARGUMENT...``."""
    name, *arguments = argument.split()
    path = str(ROOT / "docs" / name)
    sys.argv, previous = [path, *arguments], sys.argv
    try:
        return printed(lambda: runpy.run_path(path, run_name="__main__"))
    finally:
        sys.argv = previous


def printed(call: Callable[[], object]) -> str:
    """Return what a call prints in an empty folder, without weights and data."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as output,
    ):
        bare = {"COLUMNS": "100", "NO_COLOR": "1", "HARNESS_ASSETS": "", "XDG_CACHE_HOME": folder}
        before = dict(os.environ)
        os.environ.update(bare)
        try:
            call()
        finally:
            os.environ.clear()
            os.environ.update(before)
    return output.getvalue().replace(folder, "~/.cache")


def screen_block(argument: str) -> str:
    """Return what a terminal shows of a ranking as a fenced block; the argument is ``FILE TRACK TABLE``."""
    file, track, table = argument.split()
    claims = json.loads((ROOT / file).read_text())[track]["claims"]
    [lines] = [claim["screen"] for claim in claims if claim["table"] == table]
    return "\n".join(["```text", *lines, "```"]) + "\n"


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
    for headline in facts["headlines"]:
        between = "" if headline["low"] is None else f"{headline['low']:.2f} to {headline['high']:.2f}"
        tau, p = ("" if headline[name] is None else f"{headline[name]:.2g}" for name in ("tau", "p"))
        quantity = headline["quantity"].replace("|", "\\|")
        lines.append(
            f"| `{headline['table']}` | {quantity} | {headline['says']} | {tau} | {between} | {p} | {headline['n']} |"
        )
    return "\n".join(lines) + "\n"


def study_block(argument: str) -> str:
    """Return what ran in a study, in one paragraph; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    study = json.loads((ROOT / file).read_text())[track]
    failed = f"{study['tasks_failed']} failed" if study["tasks_failed"] else "none failed"
    missing = f", {study['tasks_missing']} could not be planned for want of a file" if study["tasks_missing"] else ""
    waiting = f", {study['waiting']} were not computed" if study["waiting"] else ""
    return (
        f"Profile `{study['profile']}`, seed {study['seed']}, {study['finished'][:10]}: {study['tasks_done']:,} "
        f"tasks, {failed}"
        f"{missing}{waiting}; {study['minutes']:.0f} minutes of work. Digest of the results: {study['sources'][:12]}.\n"
    )


def table_block(argument: str) -> str:
    """Return a table of a study, folded with its notes and sentences; the argument is ``FILE TRACK TABLE``."""
    file, track, id = argument.split()
    title, *lines = json.loads((ROOT / file).read_text())[track]["tables"][id]
    if not title.startswith("**"):
        return "\n".join([title, *lines]) + "\n"
    summary = _bare(title).rstrip(".")
    return "\n".join([f"<details><summary>{summary}</summary>", *lines, "", "</details>"]) + "\n"


def rows_block(argument: str) -> str:
    """Return some rows and columns of a study's table: ``FILE TRACK TABLE: LABEL; ...: COLUMN; ...``."""
    address, labels, columns = (text.strip() for text in argument.split(": "))
    file, track, id = address.split()
    lines = json.loads((ROOT / file).read_text())[track]["tables"][id]
    grid = [[_bare(text) for text in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    heads, rows = grid[0], {_label(row[0]): row for row in grid[2:]}
    chosen = [next(i for i, head in enumerate(heads) if column in head) for column in columns.split("; ")]
    out = [f"| {' | '.join([heads[0], *(heads[i] for i in chosen)])} |", f"|---|{'---|' * len(chosen)}"]
    for label in labels.split("; "):
        out.append(f"| {' | '.join([label, *(rows[label][i] for i in chosen)])} |")
    return "\n".join(out) + "\n"


def _bare(text: str) -> str:
    """Return a field of a table without marks."""
    return re.sub(r"<sup>.*?</sup>|\*\*|\\\*|\\(?=.)", "", text).strip()


def _label(text: str) -> str:
    """Return the label of a protected model without its network."""
    return text.rpartition("] + ")[2]


def numbers_block(argument: str) -> str:
    """Return published numbers beside ours, where the setting is the paper's; the argument is ``FILE TRACK``."""
    file, track = argument.split()
    lines = ["| table | quantity | of | published | ours | 95 % | n | says |", "|---|---|---|---|---|---|---|---|"]
    for row in json.loads((ROOT / file).read_text())[track]["numbers"]:
        between = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(
            f"| `{row['table']}` | {row['quantity']} | {row['entry']} | {row['published']:.3f} | {row['value']:.3f} | "
            f"{between} | {row['n']} | {row['verdict']} |"
        )
    return "\n".join(lines) + "\n"


def otherwise_block(paper: str) -> str:
    """Return what the code of a paper's authors computes otherwise, with the tables that have it, as a list."""
    tables_of: dict[str, list[str]] = {}
    for table in published_tables():
        for line in compare(table, None).otherwise if table.paper == paper else ():
            tables_of.setdefault(line, []).append(f"`{table.address}`")
    return "".join(f"- {line} In {', '.join(tables)}.\n" for line, tables in sorted(tables_of.items()))


def credits_block(argument: str) -> str:
    """Return a table of sources as a table of the page; the argument is the file."""
    lines = ["| what | who | licence | where | source |", "|---|---|---|---|---|"]
    for one in credits_in(ROOT / argument):
        address = f"<{one.address}>" if one.address.startswith("https://") else f"`{one.address}`"
        licence = f"[{one.licence}]({one.terms})" if one.terms else one.licence
        lines.append(f"| {one.title} | {one.attribution} | {licence} | {one.provenance} | {address} |")
    return "\n".join(lines) + "\n"


def threats_block(state: str) -> str:
    """Return the threats in a state, what stands against each, and its tests as a table."""
    threats = tomllib.loads((DOCS / "threats.toml").read_text())["threat"]
    rows = [(one["name"], _line(one["text"]), one.get("tests", [])) for one in threats if one["state"] == state]
    if not any(tests for _, _, tests in rows):
        return "\n".join(["| threat | what remains |", "|---|---|", *(f"| {a} | {b} |" for a, b, _ in rows)]) + "\n"
    lines = [f"| {name} | {text} | {_tests(tests)} |" for name, text, tests in rows]
    return "\n".join(["| threat | what stands against it | tests |", "|---|---|---|", *lines]) + "\n"


def contracts_block(file: str) -> str:
    """Return what is equal in a search and in a result that is kept, by contract; the argument is the file."""
    contracts = tomllib.loads((ROOT / file).read_text())["contract"]
    lines = [
        f"| {one['name']} | {_line(one['equal'])} | {_line(one['differs'])} | {_tests(one['tests'])} |"
        for one in contracts
    ]
    return "\n".join(["| contract | equal | what still differs | tests |", "|---|---|---|---|", *lines]) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _tests(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


BLOCKS = {
    "file": file_block,
    "output": output_block,
    "script": script_block,
    "orders": orders_block,
    "study": study_block,
    "table": table_block,
    "screen": screen_block,
    "threats": threats_block,
    "contracts": contracts_block,
    "numbers": numbers_block,
    "rows": rows_block,
    "credits": credits_block,
    "otherwise": otherwise_block,
}


def pages() -> list[Path]:
    """Return every page that has a generated part."""
    folders = (path for path in DOCS.rglob("*.md") if not {"generated", "_build"} & set(path.parts))
    return [path for path in (*(ROOT / name for name in OURS), *sorted(folders)) if PART.search(path.read_text())]


def generated(text: str) -> str:
    """Return a page with its generated parts made anew."""
    return PART.sub(lambda m: m[1] + BLOCKS[m[2]](m[3]) + m[4], text)


def main() -> int:
    """Write or check all pages; return the exit code."""
    stale = []
    for page in pages():
        before = page.read_text()
        after = generated(before)
        if after != before:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(after)
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"out of date: {', '.join(stale)}; run python docs/generate.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

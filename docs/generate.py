"""Write the generated parts of the pages; with --check, say which are out of date.

A generated part stands between ``<!-- generated: KIND ARGUMENT -->`` and ``<!-- end -->``. Kinds: ``file`` (the text of
a file of this repository) and ``output`` (what a command prints, run in an empty folder).
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("CONTRIBUTING.md", "docs/using.md")
PART = re.compile(r"(<!-- generated: (file|output) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml"}


def file_block(argument: str) -> str:
    """Return a file as a fenced block."""
    path = ROOT / argument
    return f"```{LANGUAGES[path.suffix]}\n{path.read_text().rstrip()}\n```\n"


def output_block(argument: str) -> str:
    """Return a command and its output as a fenced block."""
    code = "from imharness_cli import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        bare = {"COLUMNS": "100", "NO_COLOR": "1", "HARNESS_ASSETS": "", "XDG_CACHE_HOME": folder}
        environment = os.environ | bare
        command = [sys.executable, "-c", code, *shlex.split(argument)[1:]]
        shown = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    lines = "\n".join(line.rstrip() for line in shown.rstrip().splitlines())
    return f"```text\n$ {argument}\n{lines}\n```\n"


BLOCKS = {"file": file_block, "output": output_block}


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

"""Runs the commands that compute a published table: gets what has an address, runs, and says what is missing."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

from imharness.cli import cli
from imharness.errors import HarnessError


class Reproduction:
    """One run of the numbers of a published table, as `imharness.papers.commands` states its command."""

    def __init__(self, command: str, address: str, site: Path, assets: Path | None) -> None:
        self._words = [*shlex.split(command)[1:], "--store", address, "--site", str(site)]
        self._words += ["--assets", str(assets)] if assets else []

    def prepare(self, *, offline: bool) -> list[tuple[str, str]]:
        """Download what the run needs and has an address; return what is missing then, each with what gets it."""
        outlook = self._planned()["outlook"]
        missing = [(one["name"], one["how"]) for one in outlook["inputs"] if not one["downloads"]]
        for name, how in ((one["name"], one["how"]) for one in outlook["inputs"] if one["downloads"]):
            try:
                if offline:
                    missing.append((name, how))
                else:
                    cli.main(["assets", "get", name], standalone_mode=False)
            except HarnessError as error:
                missing.append((name, f"{how}: {error}"))
        missing += [("weights", command) for command in outlook["weights_to_train"]]
        return missing + list(outlook["to_install"].items())

    def run(self) -> str:
        """Run what can be computed; return "" or why nothing can."""
        try:
            cli.main(self._words, standalone_mode=False)
        except HarnessError as error:
            return str(error)
        except SystemExit as ended:
            return "some tasks failed; the table above names them" if ended.code else ""
        return ""

    def _planned(self) -> dict[str, Any]:
        """Return what the run would compute, and what is missing."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cli.main([*self._words, "--dry-run", "--json"], standalone_mode=False)
        facts: dict[str, Any] = json.loads(printed.getvalue())
        return facts

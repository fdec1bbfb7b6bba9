"""Checks what a plugin's module does when it is imported: it should only define things.

One interpreter loads torch and the harness; each module is imported in a process that is forked from it. Without forks,
as on Windows, each process loads them before it imports the module.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from imharness.errors import HarnessError
from imharness.testing.conformance import CheckResult

SLOW_S = 5.0
PATIENCE_S = 100.0
"""Seconds that the import of one module may take, and the start of the interpreter, which loads torch."""
CHECK = "is imported quickly, and does no work at import"


def check_imports(modules: Sequence[str], roots: Sequence[Path] = ()) -> list[CheckResult]:
    """Import each module in a fresh process that already has torch and the harness, and return what it did."""
    paths = os.pathsep.join([*map(str, roots), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    patience = PATIENCE_S * (1 + len(modules))
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(PATIENCE_S), *modules],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(
            f"no Python that imports torch and the harness was ready within {patience:g} s; "
            "check again when this machine computes less"
        ) from None
    return [_judged(module, json.loads(line)) for module, line in zip(modules, done.stdout.splitlines(), strict=True)]


def _judged(module: str, facts: dict[str, Any]) -> CheckResult:
    if "error" in facts:
        return CheckResult(module, CHECK, "failed", facts["error"], facts["took"])
    wrong = [*facts["did"], *([f"took {facts['seconds']:.1f} s"] if facts["seconds"] > SLOW_S else [])]
    if wrong:
        return CheckResult(module, CHECK, "failed", f"{'; '.join(wrong)[:300]}; move it into build", facts["took"])
    message = f"{facts['seconds']:.2f} s, {facts['modules']} modules"
    return CheckResult(module, CHECK, "passed", message, facts["took"])


def apart(module: str, patience: float) -> dict[str, Any]:
    """Import a module in another process; return what `observe` saw or the error that ended it, and the seconds."""
    way = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    start = time.perf_counter()
    context: Any = multiprocessing.get_context(way)
    there, here = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder, "printed")
        process = context.Process(target=_answer, args=(module, here, str(printed)))
        process.start()
        here.close()
        try:
            facts = there.recv() if there.poll(patience) else {"error": f"took longer than {patience:g} s"}
        except EOFError:  # the process ended without an answer
            process.join()
            last = " ".join(printed.read_bytes().decode(errors="replace").strip().splitlines()[-1:])
            facts = {"error": f"cannot be imported: {last or f'ended with code {process.exitcode}'}"[:320]}
        finally:
            process.kill()
            process.join()
    return {**facts, "took": time.perf_counter() - start}


def _answer(module: str, answers: Connection, printed: str) -> None:
    with open(printed, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    _load()
    answers.send(observe(module))


def _load() -> None:
    """Load torch and the harness, which do not count as work of the module."""
    import imharness.ranking.ranking
    import imharness.testing.audit  # noqa: F401


def observe(module: str) -> dict[str, Any]:
    """Import a module in this process, and return how long it took and what it did."""
    from imharness.errors import ContractError
    from imharness.testing.audit import undisturbed, watched

    before, start = len(sys.modules), time.process_time()
    did: list[str] = []
    with watched() as seen:
        try:
            with undisturbed():
                importlib.import_module(module)
        except ContractError as error:
            did.append(str(error))
    seconds = time.process_time() - start
    return {"seconds": seconds, "modules": len(sys.modules) - before, "did": [*sorted(set(seen)), *did]}


if __name__ == "__main__":
    _load()
    for name in sys.argv[2:]:
        sys.stdout.write(json.dumps(apart(name, float(sys.argv[1]))) + "\n")

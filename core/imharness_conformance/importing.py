"""What a plugin's module does when it is imported: it should define things, and nothing else."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imharness_conformance.conformance import CheckResult

SLOW_S = 5.0
PATIENCE_S = 100.0
"""How long the interpreter may take altogether, which loads torch and the harness before it watches, s."""
CHECK = "is imported quickly, and does no work at import"


def check_import(module: str, roots: Sequence[Path] = ()) -> CheckResult:
    """Import a module in a fresh interpreter that has torch and the harness already, and watch it."""
    paths = os.pathsep.join([*map(str, roots), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, module],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CheckResult(module, CHECK, "failed", f"took longer than {PATIENCE_S:g} s", time.perf_counter() - start)
    took = time.perf_counter() - start
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return CheckResult(module, CHECK, "failed", f"cannot be imported: {' '.join(last)[:300]}", took)
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    wrong = [*facts["did"], *([f"took {facts['seconds']:.1f} s"] if facts["seconds"] > SLOW_S else [])]
    if wrong:
        return CheckResult(module, CHECK, "failed", f"{'; '.join(wrong)[:300]}; move it into build", took)
    return CheckResult(module, CHECK, "passed", f"{facts['seconds']:.2f} s, {facts['modules']} modules", took)


def observe(module: str) -> dict[str, Any]:
    """Import a module here and return what it took and did."""
    import imharness.images
    import imharness.tracks  # noqa: F401
    from imharness.errors import ContractError
    from imharness_conformance.audit import undisturbed, watched

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
    sys.stdout.write(json.dumps(observe(sys.argv[1])) + "\n")

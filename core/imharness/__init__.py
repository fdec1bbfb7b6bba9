"""An evaluation harness for image privacy and image-quality robustness.

For notebooks and scripts, ``import imharness as ih`` offers what `imharness.notebook` lists. Each is loaded when it is
used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from imharness.results.version import __version__ as __version__

if TYPE_CHECKING:
    from imharness.notebook.audit import Audit, audit
    from imharness.notebook.compare import compare
    from imharness.notebook.evaluate import evaluate
    from imharness.notebook.load import load
    from imharness.notebook.objects import attack, defense, evaluator, metric
    from imharness.notebook.one_run import OneRunAudit, audit_one_run
    from imharness.notebook.published import PublishedBoard, load_board
    from imharness.notebook.reconstruct import reconstruct
    from imharness.notebook.result import Result
    from imharness.notebook.run import run
    from imharness.notebook.score import score

__all__ = [
    "Audit",
    "OneRunAudit",
    "PublishedBoard",
    "Result",
    "attack",
    "audit",
    "audit_one_run",
    "compare",
    "defense",
    "evaluate",
    "evaluator",
    "load",
    "load_board",
    "metric",
    "reconstruct",
    "run",
    "score",
]
_NOTEBOOK = "imharness.notebook"


def __getattr__(name: str) -> Any:
    offers = importlib.import_module(_NOTEBOOK).OFFERS
    if name not in offers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{_NOTEBOOK}.{offers[name]}"), name)


def __dir__() -> list[str]:
    shown = (name for name in globals() if name.startswith("__"))
    return sorted({*shown, *importlib.import_module(_NOTEBOOK).OFFERS})

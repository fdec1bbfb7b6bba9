"""An evaluation harness for image privacy and image-quality robustness.

For notebooks and scripts, ``import imharness as ih`` offers what `imharness_door` lists; each is loaded when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from imharness_door.audit import Audit, audit
    from imharness_door.compare import compare
    from imharness_door.evaluate import evaluate
    from imharness_door.load import load
    from imharness_door.objects import attack, defense, evaluator, metric
    from imharness_door.reconstruct import reconstruct
    from imharness_door.result import Result
    from imharness_door.score import score

__version__ = "0.1.0"
__all__ = [
    "Audit", "Result", "attack", "audit", "compare", "defense", "evaluate", "evaluator", "load", "metric",
    "reconstruct", "score",
]  # fmt: skip
_DOOR = "imharness_door"


def __getattr__(name: str) -> Any:
    offers = importlib.import_module(_DOOR).OFFERS
    if name not in offers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{_DOOR}.{offers[name]}"), name)


def __dir__() -> list[str]:
    shown = (name for name in globals() if name.startswith("__"))
    return sorted({*shown, *importlib.import_module(_DOOR).OFFERS})

"""An evaluation harness for image privacy and image-quality robustness.

For notebooks and scripts, ``import imharness as ih`` offers what `imharness.notebook` lists, and what packages add, as
`audit`. Each is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from imharness.results.version import __version__ as __version__

if TYPE_CHECKING:
    from imharness.notebook.compare import compare
    from imharness.notebook.evaluate import evaluate
    from imharness.notebook.load import load
    from imharness.notebook.objects import attack, defense, evaluator, metric
    from imharness.notebook.published import PublishedLeaderboard, load_leaderboard
    from imharness.notebook.result import Result
    from imharness.notebook.run import run
    from imharness.notebook.score import score

__all__ = [
    "PublishedLeaderboard",
    "Result",
    "attack",
    "compare",
    "defense",
    "evaluate",
    "evaluator",
    "load",
    "load_leaderboard",
    "metric",
    "run",
    "score",
]
_NOTEBOOK = "imharness.notebook"


def __getattr__(name: str) -> Any:
    return importlib.import_module(_NOTEBOOK).offered(name)


def __dir__() -> list[str]:
    special_names = (name for name in globals() if name.startswith("__"))
    return sorted({*special_names, *importlib.import_module(_NOTEBOOK).offers()})
